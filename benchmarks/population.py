"""Two lists of one population, taken some years apart and typed by hand: made up, from a fixed seed."""

import numpy as np
import pandas as pd

words = str.split
GIVEN = words("""Mary John Elizabeth William Anna James Margaret Robert Catherine Thomas Sarah George Jane Joseph Emma
Charles Alice Henry Frances Edward Ellen Daniel Susan Samuel Martha Michael Dorothy David Helen Richard Florence Peter
Rose Stephen Harriet Andrew Julia Frederick Clara Benjamin Lucy Philip Eleanor Anthony Marion Christina Martin Christine
Johanna Joan Erica Eric Karl Carla Frank Francis Louise Louis Robin Paula Paul Alexandra Alexander Hannah Anne Ann""")
NICKNAMES = words("""Elizabeth/Betty William/Bill Margaret/Peggy Robert/Bob Catherine/Kate Thomas/Tom Mary/Molly
John/Jack Sarah/Sally James/Jim Dorothy/Dot Edward/Ted Richard/Dick Eleanor/Nell Alexander/Alex Michael/Mike
Samuel/Sam Benjamin/Ben Henry/Harry Charles/Charlie Frederick/Fred Johanna/Jo""")
STEMS = words("""Ash Brad Carl Dun Ed Far Gold Hart Hol Kel Lang Mar Nor Old Pem Rad Sand Thorn Wal Win Whit Stan Har
Mor Pres Black Brom Clay Cress Dal Ells Frost Green Hazel King Lind""")
ENDS = words("""bury by croft dale den ell field ford ham ley man mond more ner ster stone ton well wick wood worth
mann sen son burn combe gate hurst""")
SURNAMES = [stem + end + last for stem in STEMS for end in ENDS for last in ("", "s", "e")]
PLACES = words(
    "Oak Mill Church Station Garden Market Castle Bridge Forest School Lake Hill High Park King Queen New North"
)
STREETS = [f"{place} {kind}" for place in PLACES for kind in ("Street", "Road", "Lane")]
TOWNS = words("Ashford Brixton Camden Dover Epsom Fulham Granby Hythe Ilford Jarrow Kendal Luton")
CONFUSED = words("ph/f ck/k ie/y ei/ie rn/m cl/d l/1 o/0 s/5 c/e u/v th/t ss/s ll/l")
NICKNAMES, CONFUSED = (dict(pair.split("/") for pair in pairs) for pairs in (NICKNAMES, CONFUSED))
MISTYPED = {"given": 0.1, "surname": 0.12, "street": 0.12, "town": 0.03, "phone": 0.07, "born": 0.06}
MISSING = {"given": 0.02, "surname": 0.02, "street": 0.05, "town": 0.03, "phone": 0.25, "born": 0.08}


def draw(rng, names, flat=8):
    """Draw a name; the k-th of n is drawn in proportion to about 1 / (k + flat)."""
    return str(names[int(flat * (1 + len(names) / flat) ** rng.random() - flat)])


def home(rng):
    """Draw an address and a phone number."""
    street = f"{draw(rng, STREETS)} {rng.integers(1, 60)}"
    return {"street": street, "town": draw(rng, TOWNS, 3), "phone": f"0{rng.integers(10**9):09}"}


def household(rng, surnames):
    """Draw adults and children of one name under one roof; among them are twins and namesakes of a parent."""
    shared, year, n_adults = {"surname": draw(rng, surnames), **home(rng)}, rng.integers(1925, 1985), rng.integers(1, 3)
    members = []
    for place in range(n_adults + rng.integers(4)):
        own_year = year + (rng.integers(-4, 5) if place < n_adults else rng.integers(20, 39))
        born = f"{own_year}-{rng.integers(1, 13):02}-{rng.integers(1, 29):02}"
        given = draw(rng, GIVEN)
        if place > n_adults and rng.random() < 0.12:  # a twin: parents like names that are alike
            older, born = members[-1]["given"], members[-1]["born"]
            given = str(rng.choice([name for name in GIVEN if name[0] == older[0] and name != older] or GIVEN))
        elif place >= n_adults and rng.random() < 0.1:
            given = members[0]["given"]
        members.append({"given": given, "born": born, **shared})
    return members


def years_later(rng, members, surnames):
    """Let the household move, single members leave, and some marry; some who move keep their number."""
    moved = home(rng) if rng.random() < 0.15 else {}
    if rng.random() < 0.4:
        moved.pop("phone", None)
    places = [home(rng) if rng.random() < 0.08 else moved for _ in members]
    names = [{"surname": draw(rng, surnames)} if rng.random() < 0.06 else {} for _ in members]
    return [one | place | name for one, place, name in zip(members, places, names, strict=True)]


def mistyped(rng, text):
    """Confuse letters that sound or look alike, or leave out, insert, replace or transpose a letter."""
    pairs = [(a, b) for pair in CONFUSED.items() for a, b in (pair, pair[::-1]) if a in text]
    if pairs and rng.random() < 0.3:
        return text.replace(*pairs[rng.integers(len(pairs))], 1)
    place = rng.integers(len(text))
    before, letter, after = text[:place], text[place], text[place + 1 :]
    new = str(rng.integers(10)) if letter.isdigit() else chr(rng.integers(97, 123))
    return before + (after, new + letter + after, new + after, after[:1] + letter + after[1:])[rng.integers(4)]


def typed(rng, person):
    """Type a record as a careful, an ordinary or a careless clerk does."""
    errors, record, (year, month, day) = rng.choice([0.4, 1, 2.2]), dict(person), person["born"].split("-")
    if day <= "12" and rng.random() < 0.03:
        month, day = day, month
    if rng.random() < 0.02:
        year = int(year) + rng.choice([-10, -1, 1, 10])
    if rng.random() < MISTYPED["born"] * errors:
        day = f"{rng.integers(1, 29):02}"
    record["born"] = f"{year}-{month}-{day}"
    if rng.random() < 0.12:
        record["given"] = NICKNAMES.get(record["given"], record["given"])
    for field in ("given", "surname", "street", "town", "phone"):
        while record[field] and rng.random() < MISTYPED[field] * errors:
            record[field] = mistyped(rng, record[field])
    if rng.random() < 0.03:
        record["given"], record["surname"] = record["surname"], record["given"]
    return record | {field: "" for field, share in MISSING.items() if rng.random() < share * errors}


def population(n_households=4000, seed=0):
    """Return two lists, each of 65 % of the people; ``person`` and ``household`` say who is who."""
    rng = np.random.default_rng(seed)
    surnames, lists, n_persons = rng.permutation(SURNAMES), ([], []), 0
    for number in range(n_households):
        members = household(rng, surnames)
        for rows, now in zip(lists, (members, years_later(rng, members, surnames)), strict=True):
            who = [k for k in range(len(now)) if rng.random() < 0.65]
            rows += [typed(rng, now[k]) | {"person": n_persons + k, "household": number} for k in who]
        n_persons += len(members)
    return [pd.DataFrame(rows).sample(frac=1, random_state=seed, ignore_index=True) for rows in lists]
