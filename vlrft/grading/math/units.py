"""The unit after a value: the names that answers use for a unit, and its canonical name. No conversion."""

from __future__ import annotations

_NAMES = {
    "m": "meter meters metre metres 米",
    "cm": "cm centimeter centimeters centimetre centimetres 厘米",
    "mm": "mm millimeter millimeters millimetre millimetres 毫米",
    "dm": "dm decimeter decimeters 分米",
    "km": "km kilometer kilometers kilometre kilometres 千米 公里",
    "in": "in inch inches",
    "ft": "ft foot feet",
    "yd": "yd yard yards",
    "mi": "mi mile miles",
    "nmi": "nmi 海里",
    "s": "sec second seconds 秒",
    "min": "min minute minutes 分钟",
    "h": "hr hrs hour hours 小时",
    "d": "day days 天",
    "wk": "week weeks",
    "yr": "yr year years 年",
    "kg": "kg kilogram kilograms 千克 公斤",
    "g": "gram grams 克",
    "mg": "mg milligram milligrams",
    "L": "liter liters litre litres 升",
    "mL": "mL ml milliliter milliliters 毫升",
    "Hz": "Hz hertz",
    "°": "degree degrees deg 度",
    "rad": "rad radian radians",
    "%": "percent",
    "$": "dollar dollars usd 美元",
    "¢": "cent cents",
    "€": "euro euros",
    "£": "pound pounds",
    "元": "yuan 元",
    "N": "newton newtons 牛",
    "J": "joule joules 焦耳",
    "kJ": "kJ kilojoule kilojoules",
    "W": "watt watts 瓦",
    "kW": "kW kilowatt kilowatts",
    "V": "volt volts 伏",
    "A": "ampere amperes amp amps 安",
    "K": "kelvin kelvins",
    "C": "coulomb coulombs",
    "Pa": "Pa pascal pascals",
    "kPa": "kPa kilopascal kilopascals",
    "atm": "atm atmosphere atmospheres",
    "Ω": "ohm ohms",
    "mol": "mol mole moles",
    "cal": "cal calorie calories",
    "kcal": "kcal kilocalorie kilocalories",
    "eV": "eV electronvolt electronvolts",
    "erg": "erg ergs",
    "nm": "nm nanometer nanometers nanometre nanometres",
    "ms": "ms millisecond milliseconds",
    "lb": "lb lbs",
    "oz": "oz ounce ounces",
    "gal": "gal gallon gallons",
    "acre": "acre acres",
    "unit": "unit units",
}
_SHORT = ("m", "s", "h", "g", "L", "d", "N", "J", "W", "V", "A", "K", "C")

_SPEEDS = {"mph": "mi/h", "kph": "km/h"}

UNITS = {alias: name for name, aliases in _NAMES.items() for alias in aliases.split()} | _SPEEDS
"""Name -> canonical name, for every name that differs from a product of symbols even without a mark around it."""

MARKED = UNITS | {name: name for name in _SHORT}
"""Name -> canonical name, for every name of a unit inside `\\text{…}` and `\\mathrm{…}`: single letters too."""

_FUNCTIONS = {r"\sin", r"\cos", r"\tan", r"\cot", r"\sec", r"\csc"}

MAX_UNIT = 60  # characters

POWERS = {"square": 2, "sq": 2, "cubic": 3, "平方": 2, "立方": 3}


def split_unit(tokens: list[str]) -> tuple[list[str], str]:
    """The tokens of the value, and the unit's name; a currency is before or after the value."""
    if tokens[0] in ('"$', "€", "£"):
        return tokens[1:], tokens[0].removeprefix('"')
    body, power = list(tokens), ""
    bare = [token for token in tokens if token not in ("{", "}")]
    if len(bare) == 3 and bare[1] == "_" and _is_in_base(bare[0], bare[2]):
        return [bare[0]], f"base {bare[2]}"
    if len(body) > 2 and body[-1] == "^":
        body.pop()  # cm^2^
    raised = next((k for k in range(len(body) - 1, max(0, len(body) - 6), -1) if body[k] == "^"), 0)
    per_unit = raised > 3 and body[raised - 2] == "/" and body[raised - 3][0] == '"'
    if raised > 1 and (per_unit or body[raised - 1][0] == '"'):
        power = "".join(token for token in body[raised + 1 :] if token not in ("{", "}"))
        body = body[:raised]
        if not power.removeprefix("-").isdigit():
            return tokens, ""
    if len(body) > 2 and body[-2:] == ["'", "'"] and body[-3][0].isdigit():
        return body[:-2], "″"
    if len(body) > 1 and body[-1] in ("%", "€", "£"):
        return body[:-1], body[-1]
    for tail in (["^", r"\circ"], ["^", "{", r"\circ", "}"]):
        if len(body) > len(tail) and body[-len(tail) :] == tail and not _FUNCTIONS & set(body):
            return body[: -len(tail)], "°"  # of the whole: 45/2°
    if body[-1] in ("C", "F", '"C', '"F') and r"\circ" in body[-3:]:
        return body[: -3 if body[-2] == r"\circ" else -5], "°" + body[-1][-1]
    if len(body) > 3 and body[-2] == "/" and body[-3][0] == '"':
        per = _unit_name(f"{body[-3][1:]}/{body[-1].removeprefix(chr(34))}")
        return (body[:-3], per + (f"^{power}" if power else "")) if per else (tokens, "")
    if len(body) > 1 and body[-1][0] == '"':
        name = _unit_name(body[-1][1:])
        while (
            name
            and len(body) > 2
            and body[-2][0] == '"'
            and _unit_name(f"{body[-2][1:]} {body[-1][1:]}")
        ):
            name = _unit_name(f"{body[-2][1:]} {body[-1][1:]}")
            body = [*body[:-2], f'"{body[-2][1:]} {body[-1][1:]}']
        if name:
            return body[:-1], name + (f"^{power}" if power else "")
    return tokens, ""


def _is_in_base(digits: str, base: str) -> bool:
    return digits.isdigit() and base in map(str, range(2, 17)) and int(max(digits)) < int(base)


def _unit_name(text: str) -> str:
    """`square cm`, `cm^2` and `平方厘米` -> `cm^2`; `miles per hour` -> `mi/h`; "" for a text that is no unit."""
    bare = text.strip(" .")
    if len(bare) > MAX_UNIT:
        return ""
    for word, power in POWERS.items():
        rest = bare.removeprefix(word).strip()
        if rest != bare and rest in MARKED:
            return f"{MARKED[rest]}^{power}"
    of, sign, per = bare.replace(" per ", "/").partition("/")
    if sign:
        names = _unit_name(of), _unit_name(per)
        return "/".join(names) if all(names) else ""
    base, sign, exponent = bare.partition("^")
    if sign:
        name = _unit_name(base) if exponent in ("2", "3") else ""
        return f"{name}^{exponent}" if name else ""
    return MARKED.get(bare) or MARKED.get(bare.casefold(), "")
