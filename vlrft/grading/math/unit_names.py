"""The names that answers use for a unit, and its canonical name. No conversion."""

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
    "°C": "celsius",
    "°F": "fahrenheit",
    "unit": "unit units",
}
_SHORT = ("m", "s", "h", "g", "L", "d", "N", "J", "W", "V", "A", "K", "C")

_SPEEDS = {"mph": "mi/h", "kph": "km/h"}

UNITS = {alias: name for name, aliases in _NAMES.items() for alias in aliases.split()} | _SPEEDS
"""Name -> canonical name, for every name that differs from a product of symbols even without a mark around it."""

MARKED = UNITS | {name: name for name in _SHORT}
"""Name -> canonical name, for every name of a unit inside `\\text{…}` and `\\mathrm{…}`: single letters too."""

UNMARKED_M = '" m'
"""The token of an `m` without a mark, which is metres or a symbol. No mark's content begins with a space."""

POWERS = {"square": 2, "sq": 2, "cubic": 3, "cu": 3, "平方": 2, "立方": 3}
"""Word before a name -> its power."""
