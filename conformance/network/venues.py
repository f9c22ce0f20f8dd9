"""A network to try things on: venues made from a seed, and what a search over them must find, by the plain rules.

venues = sample(240)                         # as they stand in the file that is imported
listed(venues, category='spa')               # what `venue.list` must give, by slug
"""

import random
import unicodedata

CATEGORIES = ['restaurant', 'spa', 'surf', 'Bar', 'tour', 'coworking']
CITIES = {
    'Canggu': ['Berawa', 'Batu Bolong', 'Pererenan'],
    'Ubud': ['Penestanan', 'Nyuh Kuning'],
    'Lisboa': ['Alfama', 'Graça', 'São Bento'],
    'Zürich': ['Kreis 4', 'Enge'],
    '東京': ['渋谷', '銀座'],
}
FIRST = ['Blue', 'Quiet', 'Old', 'Golden', 'Salty', 'Café', 'Little', 'Grüne', 'Night', 'Morning']
SECOND = ['Turtle', 'Lantern', 'Harbour', 'Garden', 'Tide', 'Kitchen', 'House', 'Terrace', 'Anchor', 'Mango']
WORDS = [
    'sunset',
    'dinner',
    'vegan',
    'rooftop',
    'family',
    'massage',
    'sauna',
    'longboard',
    'sake',
    'tasting',
    'quiet',
    'live music',
    'harbour view',
    'brunch',
    'wifi',
]
PRICES = ['$', '$$', '$$$', None]
# Names that have tripped others: emoji, both directions of text, wildcards, quotes, a zero-width joiner.
ODD = [
    {'name': '寿司 🍣 さくら', 'description': 'omakase, eight seats 👨‍👩‍👧'},
    {'name': 'مطعم الواحة', 'description': 'كسكس وشاي'},
    {'name': 'Left \u202eright\u202c Bar', 'description': 'bidi \u2067override\u2069'},
    {'name': '100% Juice_Bar', 'description': 'fresh \\ pressed'},
    {'name': 'O\'Reilly "Quotes"; --', 'description': "Robert'); DROP TABLE venues;--"},
    {'name': 'naïve Äpfel', 'description': 'straße'},
]


def sample(count=240, seed=8, slots=3, prefix=''):
    """`count` venues, a few of them odd. The same seed gives the same ones."""
    rng, made = random.Random(seed), []
    for number in range(count):
        city = rng.choice(list(CITIES))
        category = rng.choice(CATEGORIES)
        name = f'{rng.choice(FIRST)} {rng.choice(SECOND)} {number}'
        words = rng.sample(WORDS, 3)
        slug = f'{prefix}venue-{number:04}'
        one = {
            'slug': slug,
            'name': name,
            'category': category,
            'description': f'{", ".join(words)} in {city}',
            'area': rng.choice(CITIES[city]),
            'city': city,
            'tags': rng.sample(['wifi', 'garden', 'late', 'kids'], 2),
            'price_range': rng.choice(PRICES),
            'priority_rank': rng.choice([None, None, 1, 5, 9]),
            'agent_id': f'agent:{slug}',
            'slots': [{'id': f's{n}', 'time': f'2027-01-0{n + 1}T19:00:00Z', 'capacity': n + 1} for n in range(slots)],
        }
        if number < len(ODD):
            one |= ODD[number]
        if rng.random() < 0.2:
            one['referral_fee_pct'] = 5.5
        made.append({key: value for key, value in one.items() if value is not None})
    return made


def order(venues):
    """By rank, the highest first and none last, then by name, code point by code point."""
    ranked = [venue for venue in venues if venue.get('active', True)]
    return sorted(ranked, key=lambda v: (v.get('priority_rank') is None, -(v.get('priority_rank') or 0), v['name']))


def within(venue, location):
    return location is None or any(fold(location) in fold(venue.get(name) or '') for name in ('area', 'city'))


def fold(text):
    """Case is ignored; how far beyond ASCII is not said anywhere, so nothing here asks for more than this agrees on."""
    return text.casefold() if text.isascii() else text.lower()


def listed(venues, category=None, location=None, limit=50):
    """The slugs that `venue.list` must give."""
    found = [v for v in venues if category is None or v['category'].lower() == category.lower()]
    return [v['slug'] for v in order(v for v in found if within(v, location))][: min(limit, 100)]


def searched(venues, query=None, location=None, limit=10):
    """The slugs that `booking.search` must give: every word somewhere in name, description or category."""

    def matches(venue):
        fields = [fold(venue.get(name) or '') for name in ('name', 'description', 'category')]
        return all(any(fold(term) in field for field in fields) for term in (query or '').split())

    return [v['slug'] for v in order(v for v in venues if matches(v) and within(v, location))][: min(limit, 25)]


def plain(text):
    """The text with nothing that a terminal would act on; for reports."""
    return ''.join(c if unicodedata.category(c)[0] not in 'C' else f'\\u{ord(c):04x}' for c in text)
