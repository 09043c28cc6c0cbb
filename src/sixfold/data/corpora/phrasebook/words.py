"""The words of the phrasebook, as a dictionary prints them: English on the left, German on the right.

Nouns        `man, men = der Mann, Männer`; a third German form is the weak accusative and dative (den Jungen).
             A noun without plural is a mass noun (bread, coffee) or a language.
Adjectives   `old, older = alt, älter`; a third German form is the stem before an ending (teuer, teure).
Verbs        five English forms and four German ones: infinitive, er-form, perfect, imperative.
             A dash is a form we never use: no progressive (know), no past, no imperative. `ab|holen` is a
             separable verb; `pick ~up` lets a pronoun stand before the particle (pick him up).
             What follows `->` are the kinds of noun that the verb takes as its object.

Every English form leads to one German form: `you` is always familiar and singular (du), a `friend` is
always a Freund, `open` is always aufmachen. That is what makes the phrasebook a function.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

NOUNS = {
    "person": """
        man, men = der Mann, Männer
        woman, women = die Frau, Frauen
        child, children = das Kind, Kinder
        boy, boys = der Junge, Jungen, Jungen
        girl, girls = das Mädchen, Mädchen
        friend, friends = der Freund, Freunde
        teacher, teachers = der Lehrer, Lehrer
        doctor, doctors = der Arzt, Ärzte
        neighbour, neighbours = der Nachbar, Nachbarn, Nachbarn
        student, students = der Student, Studenten, Studenten
        colleague, colleagues = der Kollege, Kollegen, Kollegen
        guest, guests = der Gast, Gäste
        waiter, waiters = der Kellner, Kellner
        policeman, policemen = der Polizist, Polizisten, Polizisten
        """,
    "family": """
        mother, mothers = die Mutter, Mütter
        father, fathers = der Vater, Väter
        brother, brothers = der Bruder, Brüder
        sister, sisters = die Schwester, Schwestern
        son, sons = der Sohn, Söhne
        daughter, daughters = die Tochter, Töchter
        grandmother, grandmothers = die Großmutter, Großmütter
        grandfather, grandfathers = der Großvater, Großväter
        aunt, aunts = die Tante, Tanten
        uncle, uncles = der Onkel, Onkel
        """,
    "animal": """
        dog, dogs = der Hund, Hunde
        cat, cats = die Katze, Katzen
        horse, horses = das Pferd, Pferde
        bird, birds = der Vogel, Vögel
        """,
    "food": """
        apple, apples = der Apfel, Äpfel
        egg, eggs = das Ei, Eier
        orange, oranges = die Orange, Orangen
        potato, potatoes = die Kartoffel, Kartoffeln
        tomato, tomatoes = die Tomate, Tomaten
        banana, bananas = die Banane, Bananen
        cake, cakes = der Kuchen, Kuchen
        """,
    "staple": """
        bread = das Brot
        cheese = der Käse
        chocolate = die Schokolade
        """,
    "meal": """
        rice = der Reis
        meat = das Fleisch
        fish = der Fisch
        soup = die Suppe
        """,
    "drink": """
        coffee = der Kaffee
        tea = der Tee
        milk = die Milch
        water = das Wasser
        beer = das Bier
        wine = der Wein
        """,
    "print": """
        book, books = das Buch, Bücher
        newspaper, newspapers = die Zeitung, Zeitungen
        """,
    "mail": """
        letter, letters = der Brief, Briefe
        message, messages = die Nachricht, Nachrichten
        """,
    "tale": """
        story, stories = die Geschichte, Geschichten
        """,
    "clothes": """
        shirt, shirts = das Hemd, Hemden
        coat, coats = der Mantel, Mäntel
        jacket, jackets = die Jacke, Jacken
        hat, hats = der Hut, Hüte
        dress, dresses = das Kleid, Kleider
        shoe, shoes = der Schuh, Schuhe
        """,
    "vehicle": """
        car, cars = das Auto, Autos
        bicycle, bicycles = das Fahrrad, Fahrräder
        """,
    "transport": """
        train, trains = der Zug, Züge
        bus, buses = der Bus, Busse
        plane, planes = das Flugzeug, Flugzeuge
        """,
    "device": """
        computer, computers = der Computer, Computer
        television, televisions = der Fernseher, Fernseher
        radio, radios = das Radio, Radios
        lamp, lamps = die Lampe, Lampen
        camera, cameras = die Kamera, Kameras
        """,
    "opening": """
        window, windows = das Fenster, Fenster
        door, doors = die Tür, Türen
        """,
    "container": """
        suitcase, suitcases = der Koffer, Koffer
        box, boxes = die Kiste, Kisten
        bag, bags = die Tasche, Taschen
        """,
    "furniture": """
        table, tables = der Tisch, Tische
        chair, chairs = der Stuhl, Stühle
        bed, beds = das Bett, Betten
        cupboard, cupboards = der Schrank, Schränke
        """,
    "dish": """
        cup, cups = die Tasse, Tassen
        glass, glasses = das Glas, Gläser
        plate, plates = der Teller, Teller
        bottle, bottles = die Flasche, Flaschen
        knife, knives = das Messer, Messer
        """,
    "thing": """
        key, keys = der Schlüssel, Schlüssel
        picture, pictures = das Bild, Bilder
        gift, gifts = das Geschenk, Geschenke
        umbrella, umbrellas = der Regenschirm, Regenschirme
        flower, flowers = die Blume, Blumen
        ball, balls = der Ball, Bälle
        photo, photos = das Foto, Fotos
        ticket, tickets = das Ticket, Tickets
        """,
    "home": """
        house, houses = das Haus, Häuser
        flat, flats = die Wohnung, Wohnungen
        """,
    "room": """
        room, rooms = das Zimmer, Zimmer
        kitchen, kitchens = die Küche, Küchen
        office, offices = das Büro, Büros
        """,
    "building": """
        museum, museums = das Museum, Museen
        hotel, hotels = das Hotel, Hotels
        church, churches = die Kirche, Kirchen
        library, libraries = die Bibliothek, Bibliotheken
        hospital, hospitals = das Krankenhaus, Krankenhäuser
        station, stations = der Bahnhof, Bahnhöfe
        """,
    "show": """
        film, films = der Film, Filme
        concert, concerts = das Konzert, Konzerte
        """,
    "song": """
        song, songs = das Lied, Lieder
        """,
    "thought": """
        question, questions = die Frage, Fragen
        answer, answers = die Antwort, Antworten
        problem, problems = das Problem, Probleme
        word, words = das Wort, Wörter
        sentence, sentences = der Satz, Sätze
        """,
    "language": """
        German = das Deutsch
        English = das Englisch
        French = das Französisch
        Spanish = das Spanisch
        """,
    "means": """
        time = die Zeit
        money = das Geld
        """,
}

ADJECTIVES = """
    old, older = alt, älter
    young, younger = jung, jünger
    big, bigger = groß, größer
    small, smaller = klein, kleiner
    long, longer = lang, länger
    short, shorter = kurz, kürzer
    new, newer = neu, neuer
    good, - = gut, -
    bad, - = schlecht, -
    cheap, cheaper = billig, billiger
    expensive, more expensive = teuer, teurer, teur
    beautiful, more beautiful = schön, schöner
    fast, faster = schnell, schneller
    slow, slower = langsam, langsamer
    warm, - = warm, -
    cold, - = kalt, -
    strong, stronger = stark, stärker
    friendly, friendlier = freundlich, freundlicher
    happy, happier = glücklich, glücklicher
    rich, richer = reich, reicher
    famous, more famous = berühmt, berühmter
    interesting, more interesting = interessant, interessanter
    difficult, - = schwierig, -
    important, - = wichtig, -
    sad, - = traurig, -
    tired, - = müde, -, müd
    sick, - = krank, -
    hungry, - = hungrig, -
    hot, - = heiß, -
    fresh, - = frisch, -
    clean, - = sauber, -
    dirty, - = schmutzig, -
    broken, - = kaputt, -
    empty, - = leer, -
    full, - = voll, -
    red, - = rot, -
    blue, - = blau, -
    green, - = grün, -
    black, - = schwarz, -
    white, - = weiß, -
    """

ADJECTIVES_OF = {  # what may be said of which kind of noun
    "person": "old young friendly happy sad tired sick rich famous strong hungry fast slow",
    "family": "old young friendly happy sad tired sick rich famous strong hungry fast slow",
    "animal": "old young big small hungry tired strong black white beautiful fast slow",
    "food": "fresh good cheap expensive big small",
    "staple": "fresh good cheap expensive bad",
    "meal": "fresh good hot cold warm bad",
    "drink": "hot cold warm good cheap expensive",
    "print": "new old interesting important good bad",
    "mail": "new old long short interesting important sad",
    "tale": "new old long short interesting sad beautiful",
    "clothes": "new old red blue green black white clean dirty warm cheap expensive long short",
    "vehicle": "new old red blue green fast slow broken",
    "transport": "fast slow full empty new",
    "device": "new old broken small",
    "opening": "big small broken clean dirty green white",
    "container": "empty full black red blue",
    "furniture": "old beautiful broken white",
    "dish": "big small clean dirty empty full",
    "thing": "red blue green beautiful cheap expensive",
    "home": "new old big small beautiful expensive cheap",
    "room": "big small clean dirty warm cold",
    "building": "new old big small beautiful famous",
    "show": "new old long short interesting sad good bad",
    "song": "new old long short sad beautiful famous",
    "thought": "difficult important interesting good bad new",
}

TRANSITIVE = """
    buy, buys, buying, bought, bought = kaufen, kauft, hat gekauft, kauf
        -> food staple meal drink print clothes vehicle device furniture dish thing home
    sell, sells, selling, sold, sold = verkaufen, verkauft, hat verkauft, verkauf
        -> food print clothes vehicle device furniture dish home
    see, sees, -, saw, seen = sehen, sieht, hat gesehen, -
        -> person family animal transport building
    look for, looks for, looking for, looked for, looked for = suchen, sucht, hat gesucht, such
        -> person animal building thing container home
    find, finds, -, found, found = finden, findet, hat gefunden, finde -> print animal thing home building
    lose, loses, -, lost, lost = verlieren, verliert, hat verloren, - -> mail clothes container thing
    need, needs, -, needed, needed = brauchen, braucht, hat gebraucht, -
        -> person device container furniture thing home means
    like, likes, -, -, - = mögen, mag, -, - -> food staple meal drink tale song animal
    have, has, -, had, - = haben, hat, -, -
        -> animal print clothes vehicle device furniture home thought means
    read, reads, reading, read, read = lesen, liest, hat gelesen, lies -> print mail tale
    write, writes, writing, wrote, written = schreiben, schreibt, hat geschrieben, schreib -> mail tale
    eat, eats, eating, ate, eaten = essen, isst, hat gegessen, iss -> food staple meal
    drink, drinks, drinking, drank, drunk = trinken, trinkt, hat getrunken, trink -> drink
    order, orders, ordering, ordered, ordered = bestellen, bestellt, hat bestellt, bestell -> staple meal drink
    cook, cooks, cooking, cooked, cooked = kochen, kocht, hat gekocht, koch -> meal
    wash, washes, washing, washed, washed = waschen, wäscht, hat gewaschen, wasch -> clothes vehicle dish
    repair, repairs, repairing, repaired, repaired = reparieren, repariert, hat repariert, reparier
        -> vehicle device furniture
    wear, wears, wearing, wore, worn = tragen, trägt, hat getragen, trag -> clothes
    visit, visits, visiting, visited, visited = besuchen, besucht, hat besucht, besuch -> person family building
    ask, asks, asking, asked, asked = fragen, fragt, hat gefragt, frag -> person family
    know, knows, -, -, - = kennen, kennt, -, - -> person family tale song building
    understand, understands, -, understood, understood = verstehen, versteht, hat verstanden, -
        -> person tale thought
    use, uses, using, used, used = benutzen, benutzt, hat benutzt, benutz -> vehicle device dish
    clean, cleans, cleaning, cleaned, cleaned = putzen, putzt, hat geputzt, putz -> opening room
    sing, sings, singing, sang, sung = singen, singt, hat gesungen, sing -> song
    learn, learns, learning, learned, learned = lernen, lernt, hat gelernt, lerne -> language
    speak, speaks, speaking, spoke, spoken = sprechen, spricht, hat gesprochen, sprich -> language
    draw, draws, drawing, drew, drawn = zeichnen, zeichnet, hat gezeichnet, zeichne -> animal home building thing
    forget, forgets, -, forgot, forgotten = vergessen, vergisst, hat vergessen, vergiss -> thought thing
    open, opens, opening, opened, opened = auf|machen, macht auf, hat aufgemacht, mach auf -> opening container
    close, closes, closing, closed, closed = zu|machen, macht zu, hat zugemacht, mach zu -> opening container
    call, calls, calling, called, called = an|rufen, ruft an, hat angerufen, ruf an -> person family
    invite, invites, inviting, invited, invited = ein|laden, lädt ein, hat eingeladen, lade ein -> person family
    pick ~up, picks ~up, picking ~up, picked ~up, picked ~up = ab|holen, holt ab, hat abgeholt, hol ab
        -> person family
    turn ~on, turns ~on, turning ~on, turned ~on, turned ~on
        = ein|schalten, schaltet ein, hat eingeschaltet, schalte ein -> device
    turn ~off, turns ~off, turning ~off, turned ~off, turned ~off
        = aus|schalten, schaltet aus, hat ausgeschaltet, schalte aus -> device
    put ~on, puts ~on, putting ~on, put ~on, put ~on = an|ziehen, zieht an, hat angezogen, zieh an -> clothes
    bring ~along, brings ~along, bringing ~along, brought ~along, brought ~along
        = mit|bringen, bringt mit, hat mitgebracht, bring mit -> food staple drink thing
    tidy ~up, tidies ~up, tidying ~up, tidied ~up, tidied ~up
        = auf|räumen, räumt auf, hat aufgeräumt, räum auf -> room home
    look at, looks at, looking at, looked at, looked at
        = an|schauen, schaut an, hat angeschaut, schau an -> thing building animal home
    """

DATIVE = """
    help, helps, helping, helped, helped = helfen, hilft, hat geholfen, hilf -> person family
    thank, thanks, thanking, thanked, thanked = danken, dankt, hat gedankt, danke -> person family
    listen to, listens to, listening to, listened to, listened to
        = zu|hören, hört zu, hat zugehört, hör zu -> person family
    """

GIVING = """
    give, gives, giving, gave, given = geben, gibt, hat gegeben, gib -> food print dish thing
    show, shows, showing, showed, shown = zeigen, zeigt, hat gezeigt, zeig -> mail home room thing vehicle
    send, sends, sending, sent, sent = schicken, schickt, hat geschickt, schick -> mail
    bring, brings, bringing, brought, brought = bringen, bringt, hat gebracht, bring -> print dish clothes thing
    tell, tells, telling, told, told = erzählen, erzählt, hat erzählt, erzähl -> tale
    """

EXPLAINING = """
    explain, explains, explaining, explained, explained = erklären, erklärt, hat erklärt, erklär -> thought
    """

INTRANSITIVE = """
    sleep, sleeps, sleeping, slept, slept = schlafen, schläft, hat geschlafen, schlaf
    work, works, working, worked, worked = arbeiten, arbeitet, hat gearbeitet, arbeite
    play, plays, playing, played, played = spielen, spielt, hat gespielt, spiel
    wait, waits, waiting, waited, waited = warten, wartet, hat gewartet, warte
    laugh, laughs, laughing, laughed, laughed = lachen, lacht, hat gelacht, lach
    cry, cries, crying, cried, cried = weinen, weint, hat geweint, wein
    dance, dances, dancing, danced, danced = tanzen, tanzt, hat getanzt, tanz
    smoke, smokes, smoking, smoked, smoked = rauchen, raucht, hat geraucht, rauch
    get up, gets up, getting up, got up, got up = auf|stehen, steht auf, ist aufgestanden, steh auf
    wake up, wakes up, waking up, woke up, woken up = auf|wachen, wacht auf, ist aufgewacht, wach auf
    fall asleep, falls asleep, falling asleep, fell asleep, fallen asleep
        = ein|schlafen, schläft ein, ist eingeschlafen, schlaf ein
    come back, comes back, coming back, came back, come back
        = zurück|kommen, kommt zurück, ist zurückgekommen, komm zurück
    shop, shops, shopping, shopped, shopped = ein|kaufen, kauft ein, hat eingekauft, kauf ein
    watch television, watches television, watching television, watched television, watched television
        = fern|sehen, sieht fern, hat ferngesehen, sieh fern
    """

STAYING = """
    stay, stays, staying, stayed, stayed = bleiben, bleibt, ist geblieben, bleib
    sit, sits, sitting, sat, sat = sitzen, sitzt, hat gesessen, sitz
    live, lives, -, lived, lived = wohnen, wohnt, hat gewohnt, -
    """

GOING = """
    go, goes, going, went, gone = gehen, geht, ist gegangen, geh
    run, runs, running, ran, run = laufen, läuft, ist gelaufen, lauf
    """

TRAVELLING = """
    travel, travels, travelling, travelled, travelled = reisen, reist, ist gereist, reise
    fly, flies, flying, flew, flown = fliegen, fliegt, ist geflogen, flieg
    drive, drives, driving, drove, driven = fahren, fährt, ist gefahren, fahr
    """

WITH_PREPOSITION = """
    wait for, waits for, waiting for, waited for, waited for = warten, wartet, hat gewartet, warte, auf
        -> person family transport
    think of, thinks of, thinking of, thought of, thought of = denken, denkt, hat gedacht, denk, an
        -> person family thought
    talk about, talks about, talking about, talked about, talked about = reden, redet, hat geredet, rede, über
        -> show thought tale
    talk with, talks with, talking with, talked with, talked with = reden, redet, hat geredet, rede, mit
        -> person family
    """

OTHER_VERBS = """
    put, puts, putting, put, put = legen, legt, hat gelegt, leg
    come, comes, coming, came, come = kommen, kommt, ist gekommen, komm
    belong, belongs, -, -, - = gehören, gehört, -, -
    cost, costs, -, -, - = kosten, kostet, -, -
    leave, leaves, -, left, - = ab|fahren, fährt ab, ist abgefahren, -
    arrive, arrives, -, arrived, - = an|kommen, kommt an, ist angekommen, komm an
    start, starts, -, started, - = an|fangen, fängt an, hat angefangen, -
    rain, rains, raining, rained, rained = regnen, regnet, hat geregnet, -
    snow, snows, snowing, snowed, snowed = schneien, schneit, hat geschneit, -
    think, thinks, -, thought, thought = glauben, glaubt, hat geglaubt, -
    know_that, knows_that, -, -, - = wissen, weiß, -, -
    say, says, -, said, said = sagen, sagt, hat gesagt, -
    hope, hopes, -, hoped, hoped = hoffen, hofft, hat gehofft, -
    try, tries, trying, tried, tried = versuchen, versucht, hat versucht, versuch
    promise, promises, -, promised, promised = versprechen, verspricht, hat versprochen, -
    forget, forgets, -, forgot, forgotten = vergessen, vergisst, hat vergessen, vergiss
    be, is, -, was, been = sein, ist, -, sei
    """

IRREGULAR_PRESENT = {  # ich, du, er, wir, sie where the er-form does not tell
    "sein": "bin bist ist sind sind",
    "haben": "habe hast hat haben haben",
    "mögen": "mag magst mag mögen mögen",
    "wissen": "weiß weißt weiß wissen wissen",
}

MODALS = """
    can = kann kannst kann können können
    should = sollte solltest sollte sollten sollten
    may = darf darfst darf dürfen dürfen
    will = werde wirst wird werden werden
    have to = muss musst muss müssen müssen
    want to = will willst will wollen wollen
    would like to = möchte möchtest möchte möchten möchten
    had to = musste musstest musste mussten mussten
    wanted to = wollte wolltest wollte wollten wollten
    """

PRONOUNS = """
    I, me = ich, mich, mir
    you, you = du, dich, dir
    he, him = er, ihn, ihm
    she, her = sie, sie, ihr
    we, us = wir, uns, uns
    they, them = sie, sie, ihnen
    """

POSSESSIVES = "my = mein, your = dein, his = sein, her = ihr, our = unser, their = ihr"

WOMEN = "Anna Maria Lisa Julia"
MEN = "Paul Peter Martin David"
SURNAMES = "Weber Becker Wagner"

PLACES = """
    at home, home = zu Hause, nach Hause
    at school, to school = in der Schule, in die Schule
    at the cinema, to the cinema = im Kino, ins Kino
    at the theatre, to the theatre = im Theater, ins Theater
    in the office, to the office = im Büro, ins Büro
    in the park, to the park = im Park, in den Park
    in the garden, into the garden = im Garten, in den Garten
    in the kitchen, into the kitchen = in der Küche, in die Küche
    in the city, to the city = in der Stadt, in die Stadt
    in the village, to the village = im Dorf, ins Dorf
    in the restaurant, to the restaurant = im Restaurant, ins Restaurant
    in the museum, to the museum = im Museum, ins Museum
    in the library, to the library = in der Bibliothek, in die Bibliothek
    in the hospital, to the hospital = im Krankenhaus, ins Krankenhaus
    in the hotel, to the hotel = im Hotel, ins Hotel
    in the church, to the church = in der Kirche, in die Kirche
    in the forest, to the forest = im Wald, in den Wald
    at the station, to the station = am Bahnhof, zum Bahnhof
    at the airport, to the airport = am Flughafen, zum Flughafen
    at the beach, to the beach = am Strand, an den Strand
    at the lake, to the lake = am See, an den See
    at the market, to the market = auf dem Markt, auf den Markt
    at the university, to the university = an der Universität, zur Universität
    """

TOWNS = """
    Berlin = Berlin
    Hamburg = Hamburg
    Munich = München
    Vienna = Wien
    Paris = Paris
    Rome = Rom
    """

COUNTRIES = """
    Germany = Deutschland
    France = Frankreich
    Italy = Italien
    Spain = Spanien
    Poland = Polen
    """

SPOTS = {  # two-way prepositions: dative says where a thing is, accusative where it is put
    "on = auf": "table chair bed",
    "under = unter": "table chair bed",
    "behind = hinter": "door bed cupboard",
    "next to = neben": "bed lamp window cupboard",
    "in = in": "suitcase box bag cupboard",
    "in front of = vor": "door window bed",
}

WEEKDAYS = """
    Monday = Montag
    Tuesday = Dienstag
    Wednesday = Mittwoch
    Thursday = Donnerstag
    Friday = Freitag
    Saturday = Samstag
    Sunday = Sonntag
    """

MONTHS = """
    January = Januar
    February = Februar
    March = März
    April = April
    May = Mai
    June = Juni
    July = Juli
    August = August
    September = September
    October = Oktober
    November = November
    December = Dezember
    """

NUMBERS = """
    two = zwei
    three = drei
    four = vier
    five = fünf
    six = sechs
    seven = sieben
    eight = acht
    nine = neun
    ten = zehn
    eleven = elf
    twelve = zwölf
    """

SOON = "today = heute, tomorrow = morgen, tonight = heute Abend, next week = nächste Woche, now = jetzt"
PAST = "yesterday = gestern, last week = letzte Woche, last year = letztes Jahr, this morning = heute Morgen"
HABITUAL = "every day = jeden Tag, in the evening = am Abend, in summer = im Sommer, in winter = im Winter"
FREQUENCY = "often = oft, always = immer, never = nie, sometimes = manchmal"
HOMES = "at the lake, in the city, in the village, in the forest, in the hotel"  # places where people live
SIGHTS = "in the city, in the village, at the lake, at the station, at the airport, at the university"
HERE = "here = hier, there = dort"
QUESTION_WORDS = "when = wann, why = warum"

SUBORDINATORS = """
    because = weil
    although = obwohl
    while = während
    if = wenn
    when = wenn
    before = bevor
    until = bis
    as soon as = sobald
    """


@dataclass(frozen=True, slots=True)
class Noun:
    """A noun with the forms that its declension needs; without plural it is a mass noun."""

    kind: str
    english: str
    english_plural: str
    german: str
    german_plural: str
    weak: str
    gender: str


@dataclass(frozen=True, slots=True)
class Adjective:
    """An adjective; `stem` takes the endings, and an empty comparative is never used."""

    english: str
    english_comparative: str
    german: str
    german_comparative: str
    stem: str


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb in both languages; an empty form is never used."""

    english: str
    third: str
    progressive: str
    past: str
    participle: str
    prefix: str
    infinitive: str
    present: tuple[str, ...]
    auxiliary: str
    german_participle: str
    imperative: str
    preposition: str
    objects: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Words:
    """The same words in both languages."""

    english: str
    german: str


def rows(table: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the English and German forms of each row `a, b = c, d`."""
    for line in table.strip().split("\n"):
        english, _, german = line.partition("=")
        yield forms(english), forms(german)


def forms(text: str) -> list[str]:
    """Split at commas; a dash is an empty form."""
    return ["" if form.strip() == "-" else form.strip() for form in text.split(",")]


@cache
def words(table: str) -> list[Words]:
    """Read rows, or a comma-separated line, of one form each: `today = heute`."""
    lines = table.strip().split("\n") if "\n" in table else table.split(",")
    return [Words(*(side.strip() for side in line.split("="))) for line in lines]


@cache
def nouns() -> dict[str, list[Noun]]:
    """Return the nouns of each kind."""
    return {kind: [noun(kind, english, german) for english, german in rows(NOUNS[kind])] for kind in NOUNS}


def noun(kind: str, english: list[str], german: list[str]) -> Noun:
    """Read one noun: `boy, boys = der Junge, Jungen, Jungen`."""
    article, _, singular = german[0].partition(" ")
    return Noun(
        kind=kind,
        english=english[0],
        english_plural=english[1] if len(english) > 1 else "",
        german=singular,
        german_plural=german[1] if len(german) > 1 else "",
        weak=german[2] if len(german) > 2 else singular,
        gender={"der": "m", "die": "f", "das": "n"}[article],
    )


@cache
def noun_named() -> dict[str, Noun]:
    """Return each noun by its English singular."""
    return {noun.english: noun for group in nouns().values() for noun in group}


@cache
def adjectives() -> dict[str, Adjective]:
    """Return each adjective by its English word."""
    entries = [
        Adjective(english[0], english[1], german[0], german[1], german[-1] if len(german) > 2 else german[0])
        for english, german in rows(ADJECTIVES)
    ]
    return {entry.english: entry for entry in entries}


@cache
def adjectives_of(kind: str) -> list[Adjective]:
    """Return what may be said of a kind of noun."""
    return [adjectives()[word] for word in ADJECTIVES_OF.get(kind, "").split()]


@cache
def verbs(table: str) -> list[Verb]:
    """Read a table of verbs; a row may go on in the next line, indented."""
    return [verb(line) for line in unfold(table)]


def unfold(table: str) -> list[str]:
    """Join the lines that start with `->` or `=` to the one before."""
    lines: list[str] = []
    for line in (line.strip() for line in table.strip().split("\n")):
        if line.startswith(("->", "=")):
            lines[-1] += " " + line
        else:
            lines.append(line)
    return lines


def verb(line: str) -> Verb:
    """Read one verb: `buy, buys, buying, bought, bought = kaufen, kauft, hat gekauft, kauf -> food`."""
    entry, _, objects = line.partition("->")
    english_part, _, german_part = entry.partition("=")
    base, third, progressive, past, english_participle = forms(english_part.replace("_that", ""))
    german = [*forms(german_part), ""]
    prefix, _, infinitive = german[0].rpartition("|")
    auxiliary, _, participle = german[2].partition(" ")
    return Verb(
        english=base,
        third=third,
        progressive=progressive,
        past=past,
        participle=english_participle,
        prefix=prefix,
        infinitive=infinitive,
        present=present(infinitive, german[1].split(" ")[0]),
        auxiliary={"hat": "haben", "ist": "sein", "": ""}[auxiliary],
        german_participle=participle,
        imperative=german[3].split(" ")[0],
        preposition=german[4],
        objects=tuple(objects.split()),
    )


def present(infinitive: str, third: str) -> tuple[str, ...]:
    """Return the present tense for ich, du, er, wir, sie from the infinitive and the er-form."""
    if infinitive in IRREGULAR_PRESENT:
        return tuple(IRREGULAR_PRESENT[infinitive].split())
    stem = third.removesuffix("t")
    second = stem + ("t" if stem.endswith(("s", "ß", "z")) else "st")  # du liest, du tanzt, but du kaufst
    return (infinitive.removesuffix("n"), second, third, infinitive, infinitive)


@cache
def other_verb(english: str) -> Verb:
    """Return one of the verbs that have a sentence pattern of their own."""
    table = {forms(line)[0]: verb(line) for line in unfold(OTHER_VERBS)}
    return table[english]


@cache
def modals() -> dict[str, tuple[str, ...]]:
    """Return the forms for ich, du, er, wir, sie of each modal verb by its English name."""
    return {entry.english: tuple(entry.german.split()) for entry in words(MODALS)}
