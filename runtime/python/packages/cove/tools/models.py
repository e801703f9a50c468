"""What generated models are made of: pydantic 2 where the sandbox has it, else a small stand-in with the same surface."""
try:
    import pydantic

    if int(pydantic.VERSION.split(".")[0]) < 2:
        raise ImportError
except (ImportError, AttributeError, ValueError):
    from .stand_in import AnyUrl, BaseModel, ConfigDict, EmailStr, Field, ValidationError, confloat, conint, constr
else:
    from pydantic import AnyUrl, BaseModel, ConfigDict, Field, ValidationError, confloat, conint, constr

    try:
        import email_validator  # noqa: F401
        from pydantic import EmailStr
    except ImportError:
        EmailStr = str

__all__ = ["AnyUrl", "BaseModel", "ConfigDict", "EmailStr", "Field", "ValidationError", "confloat", "conint", "constr"]
