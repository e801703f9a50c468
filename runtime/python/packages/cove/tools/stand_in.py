"""Models without pydantic: keyword constructor with validation errors, attributes, model_dump and model_validate."""
import copy
import sys

from .validate import Bounds, ValidationError, check, wire

__all__ = ["AnyUrl", "BaseModel", "ConfigDict", "EmailStr", "Field", "ValidationError", "confloat", "conint", "constr"]

_MISSING = object()


class AnyUrl(str):
    """A text with a scheme."""


class EmailStr(str):
    """A text with an @."""


def ConfigDict(**settings):
    return settings


def conint(**bounds):
    return Bounds(int, bounds)


def confloat(**bounds):
    return Bounds(float, bounds)


def constr(**bounds):
    return Bounds(str, bounds)


class FieldInfo:
    def __init__(self, default=_MISSING, alias=None, title=None):
        self.default = _MISSING if default is ... else default
        self.alias, self.title, self.annotation = alias, title, None

    def is_required(self):
        return self.default is _MISSING


def Field(default=_MISSING, *, alias=None, title=None):
    return FieldInfo(default, alias, title)


class _Meta(type):
    def __new__(meta, name, bases, space):
        fields = {}
        for base in bases:
            fields.update(getattr(base, "model_fields", {}))
        for field, annotation in space.get("__annotations__", {}).items():
            given = space.pop(field, _MISSING)
            info = given if isinstance(given, FieldInfo) else FieldInfo(given)
            info.annotation = annotation
            fields[field] = info
        made = super().__new__(meta, name, bases, space)
        made.model_fields = fields
        made.model_config = space.get("model_config", {})
        made._types = None
        return made


class BaseModel(metaclass=_Meta):
    model_config = {}

    def __init__(self, /, **values):
        errors = []
        set_values = self._validated(values, errors, ())
        if errors:
            raise ValidationError(type(self).__name__, errors)
        self.__dict__.update(set_values)

    @classmethod
    def model_validate(cls, value):
        if isinstance(value, cls):
            return value
        errors = []
        made = cls._from(value, errors, ())
        if errors:
            raise ValidationError(cls.__name__, errors)
        return made

    @classmethod
    def model_rebuild(cls):
        cls._types = None

    @classmethod
    def _from(cls, value, errors, at):
        if isinstance(value, cls):
            return value
        if not isinstance(value, dict):
            errors.append((at, f"Input should be a valid dictionary or instance of {cls.__name__}", "model_type"))
            return None
        before = len(errors)
        values = cls._validated(value, errors, at)
        if len(errors) > before:
            return None
        made = cls.__new__(cls)
        made.__dict__.update(values)
        return made

    @classmethod
    def _validated(cls, values, errors, at):
        out, known = {}, set()
        types = cls._resolved()
        for name, field in cls.model_fields.items():
            given = _MISSING
            for key in (field.alias, name):
                if key is not None and key in values and given is _MISSING:
                    given = values[key]
                known.add(key)
            if given is not _MISSING:
                out[name] = check(types[name], given, errors, (*at, field.alias or name), cls.model_config)
            elif field.is_required():
                errors.append(((*at, field.alias or name), "Field required", "missing"))
            else:
                out[name] = copy.deepcopy(field.default)
        others = {name: value for name, value in values.items() if name not in known}
        if cls.model_config.get("extra") == "forbid":
            errors.extend(((*at, name), "Extra inputs are not permitted", "extra_forbidden") for name in others)
        elif cls.model_config.get("extra") == "allow":
            out.update(others)
        return out

    @classmethod
    def _resolved(cls):
        """The annotations are texts of a generated module, which names its types."""
        if cls._types is None:
            names = dict(vars(sys.modules[cls.__module__]))
            cls._types = {name: eval(field.annotation, names) if isinstance(field.annotation, str) else field.annotation
                          for name, field in cls.model_fields.items()}
        return cls._types

    @property
    def model_extra(self):
        return {name: value for name, value in self.__dict__.items() if name not in type(self).model_fields}

    def model_dump(self, *, mode="python", by_alias=False, exclude_none=False, warnings=True):
        out = {}
        for name, value in self.__dict__.items():
            if exclude_none and value is None:
                continue
            field = type(self).model_fields.get(name)
            key = field.alias if by_alias and field is not None and field.alias else name
            out[key] = wire(value, mode, by_alias, exclude_none)
        return out

    def model_dump_json(self, *, indent=None, by_alias=False, exclude_none=False):
        import json
        return json.dumps(self.model_dump(mode="json", by_alias=by_alias, exclude_none=exclude_none), indent=indent)

    def __eq__(self, other):
        return type(other) is type(self) and other.__dict__ == self.__dict__

    __hash__ = None

    def __setattr__(self, name, value):
        if name not in type(self).model_fields and type(self).model_config.get("extra") != "allow":
            raise ValueError(f'"{type(self).__name__}" object has no field "{name}"')
        self.__dict__[name] = value

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__dict__.items())})"
