"""Tables for conversations.py about facts: one half each, with no fact in both."""

# Question, the sentence that answers it, and the follow-up question.
RELATIONS = {
    "capital": ("What is the capital of {}?", "The capital of {} is {}.", "of {}"),
    "continent": ("On which continent is {}?", "{} is in {}.", "{}"),
    "language": ("Which language do most people in {} speak?", "Most people in {} speak {}.",
                 "in {}"),
    "currency": ("What is the currency of {}?", "The currency of {} is the {}.", "of {}"),
    "young": ("What do we call a baby {}?", "A baby {} is called a {}.", "a baby {}"),
    "plural": ('What is the plural of "{}"?', 'The plural of "{}" is "{}".', 'of "{}"'),
    "past": ('What is the past tense of "{}"?', 'The past tense of "{}" is "{}".', 'of "{}"'),
    "opposite": ('What is the opposite of "{}"?', 'The opposite of "{}" is "{}".', 'of "{}"'),
    "sound": ("Which sound does {} make?", "The sound of {} is: {}!", "{}"),
    "colour": ("What colour is {}?", "The colour of {} is {}.", "{}"),
    "made": ("What is {} made from?", "For {} one needs {}.", "{}"),
    "writer": ('Who wrote "{}"?', '"{}" was written by {}.', '"{}"'),
    "painter": ("Who painted {}?", "The painter of {} is {}.", "{}"),
    "symbol": ("What is the chemical symbol for {}?", "The symbol for {} is {}.", "for {}"),
    "next": ("What comes right after {}?", "After {} comes {}.", "after {}"),
    "sides": ("How many sides does {} have?", "The number of sides of {} is {}.", "{}"),
    "legs": ("How many legs does {} have?", "The number of legs of {} is {}.", "{}"),
    "job": ("What do we call someone who {}?", "Someone who {} is called {}.", "someone who {}"),
    "place": ("In which country is {}?", "The country of {} is {}.", "{}"),
    "river": ("Which river flows through {}?", "The river of {} is the {}.", "through {}"),
    "days": ("How many days are in {}?", "The number of days in {} is {}.", "in {}"),
}

# Facts that are stated, and a last one that is asked for.
DEVELOPMENT = """
capital: Norway = Oslo > Sweden = Stockholm
capital: Austria = Vienna > Ireland = Dublin
capital: Argentina = Buenos Aires > Cuba = Havana
capital: South Korea = Seoul > India = New Delhi|Delhi
capital: Australia = Canberra > Turkey = Ankara > Croatia = Zagreb
continent: Nigeria = Africa > Germany = Europe
continent: Vietnam = Asia > Canada = North America
language: Japan = Japanese > Portugal = Portuguese
language: France = French > Argentina = Spanish > Germany = German
currency: Germany = euro > India = rupee|rupees
young: bear = cub > frog = tadpole
young: duck = duckling > horse = foal|colt|filly
young: goat = kid > cow = calf
plural: goose = geese > man = men
plural: tooth = teeth > foot = feet
plural: leaf = leaves > wolf = wolves
past: see = saw > run = ran
past: take = took > give = gave
past: come = came > write = wrote > know = knew
opposite: heavy = light > early = late
opposite: full = empty > strong = weak
opposite: top = bottom > open = closed|shut
opposite: wet = dry > young = old
sound: a dog = woof > a cow = moo|moos|mooing
sound: a pig = oink > a cat = meow|meows|miaow|purr
colour: blood = red > an emerald = green
made: cider = apples > chocolate = cacao|cocoa|cacao beans|cocoa beans
writer: Don Quixote = Cervantes > Hamlet = Shakespeare
symbol: gold = Au > iron = Fe
symbol: silver = Ag > oxygen = O|O2|O₂
next: Thursday = Friday > Saturday = Sunday
next: September = October > June = July
sides: a pentagon = five > a hexagon = 6|six
legs: a duck = two > a cat = 4|four
job: travels into space = an astronaut > bakes bread = baker|a baker
job: puts out fires = a firefighter > studies the stars = astronomer|astronomers
place: the Great Wall = China > Mount Fuji = Japan
place: the Colosseum = Italy > the Taj Mahal = India
"""

HELD_OUT = """
capital: France = Paris > Italy = Rome
capital: Spain = Madrid > Portugal = Lisbon
capital: Poland = Warsaw > Greece = Athens
capital: Russia = Moscow > Germany = Berlin
capital: Japan = Tokyo > China = Beijing
capital: Canada = Ottawa > Egypt = Cairo
capital: Finland = Helsinki > Denmark = Copenhagen
capital: Hungary = Budapest > Belgium = Brussels
capital: Peru = Lima > Thailand = Bangkok
capital: the Netherlands = Amsterdam > Kenya = Nairobi > Ukraine = Kyiv|Kiev
capital: Iceland = Reykjavik > Switzerland = Bern|Berne
continent: Brazil = South America > Egypt = Africa
continent: India = Asia > France = Europe
continent: Poland = Europe > Mexico = North America
continent: Morocco = Africa > Peru = South America > China = Asia
language: Mexico = Spanish > Brazil = Portuguese
language: Italy = Italian > Greece = Greek
language: Russia = Russian > Poland = Polish
language: Egypt = Arabic > Turkey = Turkish
language: Sweden = Swedish > the Netherlands = Dutch
currency: Japan = yen > the United Kingdom = pound|pounds|pound sterling|GBP
currency: Russia = rouble > Mexico = peso|pesos
young: cat = kitten > sheep = lamb
young: dog = puppy > pig = piglet
young: chicken = chick > kangaroo = joey
young: deer = fawn > goose = gosling
plural: mouse = mice > child = children
plural: woman = women > knife = knives
plural: city = cities > box = boxes
plural: baby = babies > shelf = shelves
plural: person = people > life = lives > potato = potatoes
past: go = went > eat = ate
past: buy = bought > sing = sang
past: drink = drank > fly = flew
past: think = thought > swim = swam
past: break = broke > make = made > teach = taught
opposite: hot = cold > happy = sad|unhappy
opposite: up = down > fast = slow
opposite: rich = poor > loud = quiet|silent|soft
opposite: clean = dirty > tall = short|small
opposite: expensive = cheap > difficult = easy|simple
opposite: inside = outside > thick = thin
opposite: near = far > first = last > always = never
sound: a duck = quack > a horse = neigh|neighs|neighing|whinny
sound: a sheep = baa > a frog = croak|croaks|ribbit
sound: a lion = roar > a bee = buzz|buzzes|buzzing
colour: snow = white > grass = green
colour: a banana = yellow > coal = black
colour: chocolate = brown > a flamingo = pink
made: wine = grapes > ketchup = tomatoes|tomato
made: paper = wood > popcorn = corn|maize|corn kernels
made: butter = cream > French fries = potatoes|potato
writer: Harry Potter = J. K. Rowling > The Lord of the Rings = Tolkien
writer: Oliver Twist = Charles Dickens > Pride and Prejudice = Austen
painter: the Mona Lisa = Leonardo da Vinci > The Starry Night = van Gogh|Gogh
symbol: carbon = C > lead = Pb
symbol: copper = Cu > nitrogen = N|N2|N₂
symbol: calcium = Ca > sodium = Na
next: Monday = Tuesday > Friday = Saturday
next: March = April > October = November
next: winter = spring > breakfast = lunch
sides: a triangle = three > a square = 4|four
sides: a rectangle = four > an octagon = 8|eight
legs: a spider = eight > an ant = 6|six
legs: a cow = four > a chicken = 2|two
job: flies a plane = a pilot > teaches children at a school = teacher|a teacher
job: cuts hair = a hairdresser > repairs water pipes = plumber|a plumber
job: plays the piano = a pianist > takes photographs = photographer|a photographer
place: the Eiffel Tower = France > the pyramids of Giza = Egypt
place: Machu Picchu = Peru > the Kremlin = Russia
place: the city of Sydney = Australia > the Acropolis = Greece
place: the city of Barcelona = Spain > the city of Munich = Germany
place: the city of Venice = Italy > the city of Chicago = United States|USA|US|U.S.|America
river: Paris = Seine > London = Thames
river: Cairo = Nile > Rome = Tiber
days: April = 30 > a fortnight = 14|fourteen
"""

# English, Spanish, German, French.
WORDS_DEVELOPMENT = """
house casa Haus maison
dog perro Hund chien
red rojo rot rouge
tree árbol Baum arbre
day día Tag jour
black negro schwarz noir
"""
WORDS_HELD_OUT = """
water agua Wasser eau
cat gato Katze chat
friend amigo Freund ami
bread pan Brot pain
three tres drei trois
yes sí ja oui
white blanco weiß blanc
book libro Buch livre
sun sol Sonne soleil
night noche Nacht nuit
milk leche Milch lait
fish pescado Fisch poisson
"""

# Turns separated by " / ", then the right answer and, after "!", texts that must be absent.
UNITS_DEVELOPMENT = """
How many years are in a decade? / Ten. / And how many months? = 120 ! ten
How many metres are in a kilometre? / 1000. / And in three kilometres? = 3000|three thousand
At what temperature in Celsius does water boil? / 100 degrees. / And in Fahrenheit? = 212
How many gloves are in a pair? / Two. / And in three pairs? = 6|six
"""
UNITS_HELD_OUT = """
How many minutes are in an hour? / Sixty. / And how many seconds? = 3600 ! sixty
How many months are in a year? / Twelve. / And how many weeks? = 52|fifty-two ! twelve
How many centimetres are in a metre? / 100. / And how many millimetres? = 1000|one thousand
How many hours are in a day? / 24 hours. / And in two days? = 48|forty-eight
How many days are in a week? / Seven. / And in three weeks? = 21|twenty-one
How many grams are in a kilogram? / 1000 grams. / And in half a kilogram? = 500|five hundred
At what temperature in Celsius does water freeze? / At 0 degrees. / And in Fahrenheit? = 32
I am two metres tall. What is that in centimetres? / 200. / And in millimetres? = 2000|two thousand
"""

CHANGES_DEVELOPMENT = """
How do I boil an egg? / Put it into boiling water for eight minutes. /
  Something else: which bird hoots at night? = owl|owls ! boiling
Is it far to the Moon? / About 384,000 kilometres. /
  New topic: how many bones does an adult have? = 206 ! 384000
What rhymes with house? / Mouse. /
  Now geography: what is the capital of Scotland? = Edinburgh ! mouse
I am tired today. / I hope you can rest soon. /
  By the way, what grows from an acorn? = oak|oaks ! rest
What is 8 times 4? / 32. /
  Let's talk about animals. Which one has its baby in a pouch? = kangaroo|kangaroos|koala ! 32
Can you recommend a pet? / A hamster is easy to keep. /
  Thanks. Which metal does a magnet attract? = iron|steel|nickel|cobalt ! hamster
What do you call a female chicken? / A hen. /
  Another subject: in which year did the First World War begin? = 1914 ! hen
How do I clean a window? / With warm water and a soft cloth. /
  Okay. Which month comes before March? = February ! cloth
In which month is Halloween? / In October. /
  And now a question on shapes: which one is perfectly round? = circle|sphere ! october
Tell me a fact about cats. / Cats sleep for most of the day. /
  Now something else: which sea lies between Europe and Africa? = Mediterranean ! cats
"""
CHANGES_HELD_OUT = """
How do I make tea? / Pour hot water over the leaves and wait three minutes. /
  New subject: which planet is the largest of all? = Jupiter ! leaves
What rhymes with cat? / Hat. /
  Now history: in which year did the Second World War end? = 1945 ! hat
I had a long day. / I hope you can relax this evening. /
  Tell me, which organ pumps blood through the body? = heart ! relax
What is 9 times 3? / 27. /
  Let's talk about food. Which long orange vegetable do rabbits like? = carrot|carrots ! 27
Can you suggest a hobby? / Drawing is fun and cheap. /
  Thanks. What is the chemical formula of water? = H2O|H₂O ! drawing
How many players has a football team? / Eleven. /
  Something different: what is the largest ocean? = Pacific ! eleven
What is a haiku? / A short poem of three lines. /
  By the way, which metal has the symbol Au? = gold ! poem
How do I remove a coffee stain? / Wash it with cold water and soap. /
  Okay. What is the large desert in North Africa called? = Sahara ! soap
Which sport is played at Wimbledon? / Tennis. /
  Next topic: which hot melted rock comes out of a volcano? = lava|magma ! tennis
Tell me a fact about dogs. / Dogs smell far better than people. /
  And now: which gas do we need to breathe? = oxygen ! dogs
What should I wear in the rain? / A coat and boots. /
  Another question: which force pulls things to the ground? = gravity|gravitation ! coat
What is the first month of the year? / January. /
  Let's switch to animals: which big cat has stripes? = tiger|tigers ! january
Where can I borrow books? / At a library. /
  One more thing: what is the hardest natural material? = diamond|diamonds ! library
How tall is a door? / About two metres. /
  Something else: which language do people speak in Vienna? = German ! two metres
Do you like music? / I know a lot about it. /
  Good. Which instrument has 88 keys? = piano|pianos ! I know a lot
How do I sleep better? / Go to bed at the same time each day. /
  Thank you. What do we call a doctor for animals? = vet|vets|veterinarian|veterinary ! bed
Is a tomato a fruit? / Yes, it is. / Now a sum: what is 14 plus 9? = 23|twenty-three ! tomato
What do I get when I mix red and white paint? / Pink. /
  Other topic: how many letters has the English alphabet? = 26|twenty-six ! pink
Where was paper invented? / In China. /
  Now a different one: which instrument measures temperature? = thermometer|thermometers ! china
How long does a film last? / About two hours. /
  Let's talk about space: which planet is called the Red Planet? = Mars ! two hours
"""
