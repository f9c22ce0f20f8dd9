#!/usr/bin/env python3
"""Makes venues for a sample network: python3 make_venues.py [COUNT] > venues.json

The same count always gives the same venues, so the file in this directory can be made again.
"""
import json
import random
import sys

PLACES = [
    ("Bali", ["Canggu", "Ubud", "Seminyak", "Uluwatu", "Sanur", "Pererenan"]),
    ("Lisbon", ["Alfama", "Chiado", "Belém", "Graça", "Estrela"]),
    ("Tunis", ["La Marsa", "Sidi Bou Saïd", "Médina", "Carthage"]),
    ("Marseille", ["Le Panier", "Noailles", "Vieux-Port", "Endoume"]),
    ("Tokyo", ["Shibuya", "Yanaka", "Shimokitazawa", "Koenji"]),
    ("Valletta", ["Sliema", "Floriana", "St Julian’s"]),
]
KINDS = {
    "restaurant": (
        ["Trattoria", "Warung", "Bistro", "Osteria", "Taverna", "Kitchen", "Grill", "Cantina"],
        ["wood fired pizza", "grilled fish", "ramen", "couscous on Fridays", "a long wine list", "seafood by the harbour",
         "vegan plates", "slow roasted lamb"],
        ["dinner", "lunch", "family", "outdoor", "seafood", "vegan", "pizza"],
    ),
    "spa": (
        ["Hammam", "Spa", "Baths", "Onsen", "Retreat"],
        ["hot stone massage", "a hammam with clay", "sound baths", "salt rooms", "yoga at sunrise"],
        ["massage", "sauna", "yoga", "quiet"],
    ),
    "hotel": (
        ["Hotel", "Guesthouse", "Riad", "Ryokan", "Inn"],
        ["rooms above the sea", "a courtyard with orange trees", "family suites", "a rooftop pool"],
        ["pool", "breakfast", "sea view", "pets"],
    ),
    "bar": (
        ["Bar", "Tap Room", "Wine Cellar", "Listening Bar"],
        ["natural wine", "live jazz on Thursdays", "cocktails with local herbs", "craft beer"],
        ["cocktails", "live music", "late", "wine"],
    ),
    "activity": (
        ["Surf School", "Sailing Club", "Cooking Class", "Dive Centre", "Pottery Studio"],
        ["lessons for beginners", "half-day tours", "small groups", "classes for children"],
        ["outdoor", "family", "lessons", "sea"],
    ),
}
NAMES = ["Azul", "Brisa", "Corallo", "Dune", "Estrela", "Fonte", "Ginger", "Harbour", "Indigo", "Jasmin", "Kumo", "Luna",
         "Mistral", "Nilo", "Olive", "Pepe Rosa", "Quince", "Rosmarin", "Sabir", "Tamarind", "Umami", "Vela", "Willow",
         "Yuzu", "Zephyr"]


def slug_of(text):
    plain = text.lower().replace("ï", "i").replace("é", "e").replace("ç", "c").replace("’", "")
    return "-".join("".join(c if c.isascii() and c.isalnum() else " " for c in plain).split())


def venues(count):
    draw, seen, made = random.Random(8), set(), []
    while len(made) < count:
        city, areas = draw.choice(PLACES)
        area = draw.choice(areas)
        category = draw.choice(sorted(KINDS))
        titles, specials, tags = KINDS[category]
        name = f"{draw.choice(titles)} {draw.choice(NAMES)}"
        slug = slug_of(f"{name} {area}")
        number = sum(1 for known in seen if known == slug or known.rsplit("-", 1)[0] == slug) + 1
        slug = slug if number == 1 else f"{slug}-{number}"
        if slug in seen:
            continue
        seen.add(slug)
        row = {
            "slug": slug,
            "name": name,
            "category": category,
            "description": f"{draw.choice(specials).capitalize()} and {draw.choice(specials)} in {area}, {city}.",
            "area": area,
            "city": city,
            "tags": sorted(draw.sample(tags, 2)),
            "price_range": draw.choice(["$", "$$", "$$$"]),
            "priority_rank": draw.choice([None, None, 1, 2, 5, 10]),
            "agent_id": f"venue_{slug.replace('-', '_')}",
            "referral_fee_pct": draw.choice([7.0, 7.0, 7.0, 5.0, 10.0]),
            "slots": [
                {"id": f"{day:02d}-{hour}", "time": f"2026-12-{day:02d}T{hour}:00:00Z", "capacity": draw.choice([2, 4, 8])}
                for day in (1, 2, 3)
                for hour in (12, 19)
            ],
        }
        made.append(row)
    made[0].update(slug="la-brisa", name="La Brisa", category="restaurant", area="Canggu", city="Bali",
                   description="Seafood by the beach, and a market on Sundays.", agent_id="venue_la_brisa",
                   priority_rank=20)
    return made


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 240
    rows = ",\n".join(json.dumps(row, ensure_ascii=False) for row in venues(count))
    print(f"[\n{rows}\n]")
