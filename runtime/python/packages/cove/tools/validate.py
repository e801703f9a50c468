"""Values of the types that generated models have, checked and brought into their form as pydantic does it."""
import datetime
import enum
import ipaddress
import math
import re
import typing
import uuid

_DURATION = re.compile(r"([-+]?)P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")
_ZONE = re.compile(r"[zZ]$")
_TRUE, _FALSE = ("true", "t", "yes", "y", "on", "1"), ("false", "f", "no", "n", "off", "0")


class ValidationError(ValueError):
    def __init__(self, title, errors):
        self.title, self._errors = title, errors
        lines = [f"{len(errors)} validation error{'s' if len(errors) > 1 else ''} for {title}"]
        for at, message, kind in errors:
            lines += [".".join(str(part) for part in at), f"  {message} [type={kind}]"]
        super().__init__("\n".join(lines))

    def errors(self):
        return [{"type": kind, "loc": at, "msg": message} for at, message, kind in self._errors]

    def error_count(self):
        return len(self._errors)


class Bounds:
    """conint, confloat and constr."""

    def __init__(self, kind, bounds):
        self.kind, self.bounds = kind, bounds

    def __call__(self):  # typing takes what can be called for a type
        raise TypeError("not a class")

    def __hash__(self):
        return id(self)

    def check(self, value, errors, at):
        for name, bound in self.bounds.items():
            if bound is None:
                continue
            good, words = _RULES[name](value, bound)
            if not good:
                errors.append((at, words, name))


_RULES = {
    "ge": lambda value, bound: (value >= bound, f"Input should be greater than or equal to {bound}"),
    "gt": lambda value, bound: (value > bound, f"Input should be greater than {bound}"),
    "le": lambda value, bound: (value <= bound, f"Input should be less than or equal to {bound}"),
    "lt": lambda value, bound: (value < bound, f"Input should be less than {bound}"),
    "min_length": lambda value, bound: (len(value) >= bound, f"String should have at least {bound} characters"),
    "max_length": lambda value, bound: (len(value) <= bound, f"String should have at most {bound} characters"),
    "pattern": lambda value, bound: (re.search(bound, value) is not None, f"String should match pattern '{bound}'"),
}


def check(kind, value, errors, at, config):
    """The value in its form. What is wrong with it is added to the errors."""
    if kind is typing.Any:
        return value
    if isinstance(kind, Bounds):
        before = len(errors)
        value = check(kind.kind, value, errors, at, config)
        if len(errors) == before:
            kind.check(value, errors, at)
        return value
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Union:
        return _one_of(arguments, value, errors, at, config)
    if origin is typing.Literal:
        if any(value == choice and type(value) is type(choice) for choice in arguments):
            return value
        errors.append((at, f"Input should be {' or '.join(repr(choice) for choice in arguments)}", "literal_error"))
        return value
    if origin is list:
        if not isinstance(value, (list, tuple)):
            errors.append((at, "Input should be a valid list", "list_type"))
            return value
        return [check(arguments[0], element, errors, (*at, number), config) for number, element in enumerate(value)]
    if origin is dict:
        if not isinstance(value, dict):
            errors.append((at, "Input should be a valid dictionary", "dict_type"))
            return value
        return {check(arguments[0], name, errors, (*at, name), config): check(arguments[1], element, errors, (*at, name), config)
                for name, element in value.items()}
    if kind is type(None):
        if value is not None:
            errors.append((at, "Input should be None", "none_required"))
        return value
    if hasattr(kind, "model_fields"):
        return kind._from(value, errors, at)
    if issubclass(kind, enum.Enum):
        return _member(kind, value, errors, at, config)
    for known, convert in _CONVERSIONS:
        if issubclass(kind, known):
            try:
                return convert(kind, value)
            except (TypeError, ValueError, OverflowError):
                errors.append((at, f"Input should be a valid {_WORDS.get(known, kind.__name__)}", f"{kind.__name__}_type"))
                return value
    return value


def _one_of(kinds, value, errors, at, config):
    if value is None and type(None) in kinds:
        return None
    kinds = [kind for kind in kinds if kind is not type(None)]
    # One that the value is already comes before one that it can be made into.
    for kind in sorted(kinds, key=lambda kind: not (isinstance(kind, type) and type(value) is kind)):
        found = []
        made = check(kind, value, found, at, config)
        if not found:
            return made
        if len(kinds) == 1:
            errors.extend(found)
            return value
    errors.append((at, "Input fits none of the types it may have", "union_error"))
    return value


def _member(kind, value, errors, at, config):
    try:
        member = value if isinstance(value, kind) else kind(value)
    except ValueError:
        choices = " or ".join(repr(member.value) for member in kind)
        errors.append((at, f"Input should be {choices}", "enum"))
        return value
    return member.value if config.get("use_enum_values") else member


def _text(kind, value):
    if not isinstance(value, str):
        raise TypeError
    if kind.__name__ == "AnyUrl" and not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", value):
        raise ValueError
    if kind.__name__ == "EmailStr" and not re.fullmatch(r"[^@\s]+@[^@\s]+", value):
        raise ValueError
    return value if type(value) is kind else kind(value)


def _bool(kind, value):
    if isinstance(value, bool):
        return value
    if isinstance(value, (int, float)) and value in (0, 1):
        return bool(value)
    if isinstance(value, str) and value.lower() in _TRUE + _FALSE:
        return value.lower() in _TRUE
    raise ValueError


def _int(kind, value):
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, float) and not value.is_integer():
        raise ValueError
    if isinstance(value, str) and not re.fullmatch(r"\s*[-+]?\d+\s*", value):
        raise ValueError
    if not isinstance(value, (int, float, str)):
        raise TypeError
    return int(value)


def _float(kind, value):
    if not isinstance(value, (int, float, str)):
        raise TypeError
    number = float(value)
    if math.isnan(number) or math.isinf(number):
        raise ValueError
    return number


def _bytes(kind, value):
    return value.encode() if isinstance(value, str) else bytes(value) if isinstance(value, (bytes, bytearray)) else _refuse()


def _refuse():
    raise TypeError


def _moment(kind, value):
    if isinstance(value, kind):
        return value
    if isinstance(value, str):
        return kind.fromisoformat(_ZONE.sub("+00:00", value))
    if kind is datetime.datetime and isinstance(value, (int, float)) and not isinstance(value, bool):
        return datetime.datetime.fromtimestamp(value, datetime.timezone.utc)
    raise TypeError


def _duration(kind, value):
    if isinstance(value, kind):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return datetime.timedelta(seconds=value)
    parts = _DURATION.fullmatch(value)
    if parts is None or not any(parts.groups()[1:]):
        raise ValueError
    sign, days, hours, minutes, seconds = parts.groups()
    made = datetime.timedelta(days=int(days or 0), hours=int(hours or 0), minutes=int(minutes or 0), seconds=float(seconds or 0))
    return -made if sign == "-" else made


def _made_of_text(kind, value):
    return value if isinstance(value, kind) else kind(value) if isinstance(value, str) else _refuse()


_CONVERSIONS = [
    (bool, _bool), (str, _text), (int, _int), (float, _float), (bytes, _bytes), (datetime.datetime, _moment), (datetime.date, _moment),
    (datetime.time, _moment), (datetime.timedelta, _duration), (uuid.UUID, _made_of_text), (ipaddress.IPv4Address, _made_of_text),
    (ipaddress.IPv6Address, _made_of_text),
]
_WORDS = {str: "string", int: "integer", float: "number", bool: "boolean", datetime.timedelta: "duration"}


def wire(value, mode, by_alias, exclude_none):
    """For model_dump()."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode=mode, by_alias=by_alias, exclude_none=exclude_none)
    if isinstance(value, (list, tuple)):
        return [wire(element, mode, by_alias, exclude_none) for element in value]
    if isinstance(value, dict):
        return {name: wire(element, mode, by_alias, exclude_none) for name, element in value.items()}
    return _as_json(value) if mode == "json" else value


def _as_json(value):
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, datetime.timedelta):
        return _duration_text(value)
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        text = value.isoformat()
        return text[:-6] + "Z" if text.endswith("+00:00") else text
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    return str(value)


def _duration_text(value):
    sign, value = ("-", -value) if value.days < 0 else ("", value)
    seconds = value.seconds + value.microseconds / 1e6
    hours, minutes = int(seconds // 3600), int(seconds % 3600 // 60)
    left = seconds - hours * 3600 - minutes * 60
    time = "".join(part for part in (f"{hours}H" if hours else "", f"{minutes}M" if minutes else "", f"{left:g}S" if left else ""))
    days = f"{value.days}D" if value.days else ""
    return f"{sign}P{days}{'T' + time if time else ''}" if days or time else "PT0S"
