"""Names of units, as answers carry them, and the one name that each stands for. No conversion."""

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
    "mph": "mph",
    "kph": "kph",
    "unit": "unit units",
}
_SHORT = ("m", "s", "h", "g", "L", "d", "N", "J", "W", "V", "A", "K", "C")

UNITS = {alias: name for name, aliases in _NAMES.items() for alias in aliases.split()}
"""Every name that can be told from a product of symbols without a mark around it."""

MARKED = UNITS | {name: name for name in _SHORT}
"""What counts as a unit inside `\\text{…}` and `\\mathrm{…}`: single letters too."""

POWERS = {"square": 2, "sq": 2, "cubic": 3, "平方": 2, "立方": 3}
