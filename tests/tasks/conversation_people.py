"""Tables for conversations.py about what the user said: one half each, no people in both."""

# Turns separated by " / ", then the right answer and, after "!", texts that must be absent.
PRONOUNS_DEVELOPMENT = """
My sister Lena is a nurse and lives in Bergen. / That sounds like a good life. /
  Where does she live? = Bergen ! nurse
My brother Karl is a cook and lives in Graz. / I see. / What is his job? = cook|chef ! Graz
Sofia has a parrot and Pavel has a rabbit. / Nice pets! /
  Which animal does he have? = rabbit ! parrot
I bought a red lamp for 40 dollars. / Congratulations! / What colour is it? = red ! 40
We rented a boat for three days. It was cold. / I hope you enjoyed it. /
  How long did we have it? = three days|3 days ! cold
Greta gave Ivan a watch and got a scarf from him. / How kind! /
  What did he give her? = scarf ! watch
Rosa was the first in the race and Emil was the third. / Well done, both of them. /
  Which place did he take? = third|3rd|3 ! first|second
My uncle drives a truck. My aunt drives a tram. / Busy people! / What does she drive? = tram ! truck
The museum opens at nine and closes at six. / Thanks, good to know. /
  When does it close? = six|6|6:00|18:00 ! nine|9
My parents' house has two floors and five rooms. / It sounds cosy. /
  How many rooms does it have? = five|5 ! two|2
What is the largest continent? / Asia. /
  Is China part of it? Begin with yes or no. = /(?i)^\\W*yes\\b/
Who sailed across the Atlantic in 1492? / Christopher Columbus. /
  In which country was he born? = Italy|Genoa
Which bird is the largest? / The ostrich. /
  Can it fly? = /(?i)^\\W*no\\b|cannot|can.?t\\b|can not|unable|flightless/
Which animal builds dams in rivers? / The beaver. /
  What does it use for them? = wood|trees|branches|sticks|logs|mud|twigs|tree branches
"""
PRONOUNS_HELD_OUT = """
My cousin Clara is a dentist and lives in Porto. / How nice. /
  Where does she live? = Porto ! dentist
My neighbour Jonas is a baker and comes from Malta. / I see. / What is his job? = baker ! Malta
Maya plays the flute and Felix plays the drums. / A musical family! /
  What does he play? = drums|drum ! flute
Nora ordered soup and Hugo ordered a salad. / Enjoy your meal! / What did she order? = soup ! salad
I bought a green coat for 90 euros. / It must look good. /
  How much did it cost? = 90|ninety|€90 ! green
I found an old silver ring in the garden. / Lucky you! / Where was it? = garden ! silver
My grandmother has four sons and two daughters. / A big family! /
  How many daughters does she have? = two|2 ! four|4
The bus leaves at eight and arrives at eleven. / Have a good trip. /
  When does it arrive? = eleven|11|11:00 ! eight|8
Alice wrote Viktor a long letter and he sent her a postcard. / Lovely. /
  What did she get from him? = postcard ! long
The red box holds tea and the blue one holds sugar. / Understood. /
  What is in the blue one? = sugar ! tea
Elena lives on the second floor and her brother on the fifth. / I see. /
  On which floor does he live? = fifth|5th|5|five ! second|2nd
My father was a sailor. My mother was a singer. / Interesting! / What was she? = singer ! sailor
The hotel has a pool, and it has no garage. / Good to know. /
  Can I park in a garage there? = /(?i)^\\W*no\\b|does(n.t| not)|cannot|can.t\\b|unfortunately/
Tomas was late because of the snow. Julia was late because of a flat tyre. / I understand. /
  Why was she late? = flat tyre|flat tire|tyre|tire ! snow
We saw a film about whales on Friday. / I hope you liked it. / When did we see it? = Friday ! whales
Peter paid 12 dollars for the book, and I sold it for 15. / A small gain. /
  How much did he pay for it? = 12|twelve|$12 ! 15|$15
Who wrote "Romeo and Juliet"? / William Shakespeare. /
  In which country was he born? = England|United Kingdom|UK|U.K.|Britain|Great Britain
Who was the first person on the Moon? / Neil Armstrong. /
  Which country was he from? = United States|USA|US|U.S.|U.S.A.|America|American
Who painted "The Last Supper"? / Leonardo da Vinci. / Which country was he from? = Italy|Italian
What is the tallest animal? / The giraffe. / On which continent does it live? = Africa
Which planet is closest to the Sun? / Mercury. /
  Is it larger than the Earth? = /(?i)^\\W*no\\b|smaller|isn.t|is not/
What is the fastest land animal? / The cheetah. /
  Is it a kind of cat or a kind of dog? = cat|feline|big cat ! dog
What do caterpillars turn into? / Butterflies. /
  Do they have wings? = /(?i)^\\W*yes\\b|\\bthey do\\b|butterflies (do )?have/
What is the highest mountain in the world? / Mount Everest. / On which continent is it? = Asia
Which long river flows through Egypt? / The Nile. / Into which sea does it flow? = Mediterranean
Who was the first president of the United States? / George Washington. /
  Is he still alive? = /(?i)^\\W*no\\b|died|\\bdead\\b|not alive|is not|isn.t|passed/
Which country in Europe has the shape of a boot? / Italy. /
  Name a dish from there. = pizza|pasta|spaghetti|lasagna|lasagne|risotto|gelato|tiramisu|ravioli
What do giant pandas eat? / Bamboo. / Which country do they come from? = China
"""

# Person, year of birth, event and its year.
AGES_DEVELOPMENT = """
Lena|she|1980|learned to ski|1992
Pavel|he|1975|built a boat|1995
Rosa|she|1990|went to sea|2008
Ivan|he|2001|won a prize|2012
"""
AGES_HELD_OUT = """
Clara|she|1970|opened a shop|1994
Jonas|he|1985|ran a marathon|2015
Maya|she|1999|broke an arm|2006
Felix|he|1960|bought a farm|1982
Nora|she|2000|wrote a book|2019
Hugo|he|1950|came to Lyon|1968
Alice|she|1995|saw the sea for the first time|2004
Viktor|he|1988|got a cat|1998
"""
AGE_REPLIES = ["That is interesting.", "Good to hear.", "I see.", "Nice!"]

# The user's statement, the reply, and the later question.
RECALL_DEVELOPMENT = """
My name is Sofia. / Nice to meet you! / What is my name? = Sofia ! my name is
Hello, I am Pavel. / Hello! How can I help? / What is my name? = Pavel ! I am Pavel
I live in Tampere. / I see. / Where do I live? = Tampere ! I live in
My favourite colour is orange. / A warm colour! /
  Which colour do I like most? = orange ! my favourite colour is
I have a hamster called Pip. / How sweet! / What is my hamster called? = Pip ! I have a hamster
My birthday is in August. / Thank you, I will remember. /
  In which month is my birthday? = August ! my birthday is
The code for my door is 4711. / Noted. / Which code opens my door? = 4711 ! for my door
I am allergic to nuts. / Thank you for telling me. /
  What must not be in my cake? = nuts|nut ! I am allergic
My train leaves from platform 6. / Noted. / Which platform do I need? = 6|six ! my train
My sister is called Greta. / A good name! / What is my sister's name? = Greta ! my sister
My car is grey. / A practical colour. / What colour is my car? = grey|gray ! my car is
I work as a gardener. / That is healthy work. / What is my job? = gardener|gardening ! I work as
I only drink tea. / I will keep it in mind. / Which drink should you offer me? = tea ! I only drink
I am 34 years old. / Thank you. / How old am I? = 34|thirty-four ! I am 34
Our meeting is in room 12. / Okay. / In which room do we meet? = 12|twelve ! our meeting
I am going to Iceland in May. / Have fun! / To which country am I going? = Iceland ! I am going to
"""
RECALL_HELD_OUT = """
My name is Clara. / Nice to meet you! / What is my name? = Clara ! my name is
Hi, I am Hugo. / Hi! What can I do for you? / Do you remember my name? = Hugo ! I am Hugo
Good morning! Call me Nora. / Good morning! / How should you call me? = Nora ! call me Nora
They call me Viktor. / Pleased to meet you. / What am I called? = Viktor ! they call
I live in Porto. / I see. / In which city do I live? = Porto ! I live in
I come from Lyon. / A good place. / Where do I come from? = Lyon ! I come
I grew up in Quebec. / Thank you for telling me. / Where did I grow up? = Quebec ! I grew up
I was born in Krakow. / Interesting. / In which city was I born? = Krakow|Kraków ! I was born
My favourite colour is turquoise. / A fresh colour! /
  Which colour do I like best? = turquoise ! my favourite colour is
I painted my room purple. / It must look special. / Which colour is my room? = purple ! I painted
I have a dog called Bruno. / Good dog! / What is my dog's name? = Bruno ! I have a dog
My cat is called Minka. / How cute! / What is my cat called? = Minka ! my cat is
My horse is called Storm. / A strong name. / What is the name of my horse? = Storm ! my horse is
We named our goldfish Bubbles. / Very fitting. /
  What did we name our goldfish? = Bubbles ! we named our
My birthday is in October. / I will remember that. /
  In which month do I have my birthday? = October ! my birthday is
I got married in June. / Congratulations! / In which month did I get married? = June ! I got married
The number of my locker is 8052. / Noted. / What is my locker's number? = 8052 ! of my
I am allergic to milk. / Thank you for telling me. /
  Which food must I avoid? = milk|dairy ! I am allergic
I can't eat strawberries. / I will keep it in mind. /
  Which fruit should not be in my salad? = strawberries|strawberry ! I can't eat
Our train leaves from platform 9. / Okay. / Which platform do we need? = 9|nine ! our train
My brother is called Jonas. / I see. / What is my brother's name? = Jonas ! my brother
My mother is called Elena. / A beautiful name. / What is my mother called? = Elena ! my mother
My bike is yellow. / Easy to see! / What colour is my bike? = yellow ! my bike is
I work as a plumber. / An important job. / What do I do for a living? = plumber|plumbing ! I work as
I am a librarian. / A quiet job. / What is my job? = librarian ! I am a librarian
My favourite food is pancakes. / Yummy! /
  What do I like to eat most? = pancakes|pancake ! my favourite
I am 52 years old. / Thank you. / How old am I? = 52|fifty-two ! I am 52
My son is 27. / I see. / How old is my son? = 27|twenty-seven ! my son
My room in the hotel is 204. / Noted. / Which room am I in? = 204 ! my room in
We are going to Greece in summer. / Enjoy it! /
  Which country are we going to? = Greece ! we are going
I play for the Tigers. / Good luck! / Which team do I play for? = Tigers ! I play for
I lost my umbrella on the tram. / What a pity. / Where did I lose my umbrella? = tram ! I lost my
"""
# Asides between the statement and the question.
ASIDES_DEVELOPMENT = [
    ("What is a group of wolves called?", "It is called a pack."),
    ("What is 20 minus 2?", "It is 18."),
    ("Who was Abraham Lincoln?", "He was a president of the United States."),
    ("Is a whale a fish?", "No, it is a mammal."),
]
ASIDES_HELD_OUT = [
    ("What is a group of lions called?", "It is called a pride."),
    ("What is 30 minus 13?", "It is 17."),
    ("Who was Albert Einstein?", "He was a physicist."),
    ("Is a spider an insect?", "No, it is an arachnid."),
    ("How many strings does a violin have?", "It has four strings."),
]

# A wrong statement, its correction, and the question.
SLIPS_DEVELOPMENT = """
My train leaves at five. / Noted. / Wait, it leaves at seven. / Okay. /
  When does my train leave? = seven|7|7:00 ! five|5|wait
We need three chairs. / Okay. / Wrong, we need four. / All right. /
  How many chairs do we need? = four|4 ! three|3|wrong
The party is on Monday. / I will remember. / Oh no, it is on Thursday. / Thank you. /
  On which day is the party? = Thursday ! Monday|oh no
"""
SLIPS_HELD_OUT = """
The shop closes at six. / Noted. / Sorry, it closes at eight. / Okay. /
  When does the shop close? = eight|8|8:00 ! six|6|sorry
I have two sisters. / How nice. / No, I meant three. / I see. /
  How many sisters do I have? = three|3 ! two|2|I meant
The exam is on Tuesday. / Good luck! / Oops, it is on Friday. / Thank you. /
  On which day is the exam? = Friday ! Tuesday|oops
My hotel is in Vienna. / Okay. / No, wait, it is in Prague. / Got it. /
  In which city is my hotel? = Prague ! Vienna|no wait|no, wait
The key is under the mat. / Noted. / That was wrong, it is in the drawer. / All right. /
  Where is the key? = drawer ! mat|wrong
My teacher is Mr. Lang. / Okay. / I mean Mr. Winter. / Thanks for the correction. /
  Who is my teacher? = Winter ! Lang|I mean
"""
