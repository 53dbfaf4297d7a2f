"""Tables for conversations.py about an agreed form of the answers."""

# The user's request, a reply that complies with it, and the pattern of an answer, where {} is the right one.
# {start} and {end} depend on the question.
RULES = {
    "capitals": ("Please answer in capital letters from now on.", "UNDERSTOOD.",
                 r"\b({})\b"),
    "one word": ("From now on, answer with one word only.", "Okay.", r"(?i)^\W*({})\W*$"),
    "digits": ("Answer my questions with a number in digits and nothing else.", "Okay.",
               r"^\W*{}\W*$"),
    "words": ("Please write all numbers as words, not in digits.", "I will do that.",
              r"(?i)^[^\d]*\b{}\b[^\d]*$"),
    "start": ('Begin each of your answers with "{start}".', "{start}, I will do that.",
              r"(?is)^\W*{start}\b.{{0,80}}\b({})\b"),
    "end": ('End each of your answers with "{end}".', "I will do that, {end}.",
            r"(?is)\b({})\b.*\b{end}\W*$"),
    "yes": ("Answer only with yes or no.", "Yes.", r"(?i)^\W*{}\W*$"),
}

# Rule, word at the start or end, question, right answer; for "yes" a question that was answered.
DEVELOPMENT = """
capitals||What colour do you get from red and yellow?|ORANGE
capitals||Which slow animal carries its house on its back?|SNAIL
one word||What covers the body of a bird?|feathers|feather
one word||Where do birds lay their eggs?|(in )?(a |the )?nests?
digits||How many wings does a butterfly have?|4
digits||How many moons does the Earth have?|1
words||How many colours are in a rainbow?|seven
words||How many fingers are on one hand?|five
start|Captain|Which planet do we live on?|Earth
start|Well|What do we hear with?|ears?
end|over|What shines in the sky by day?|sun
end|thank you|What is ice made of?|water
yes|Is glass transparent? Yes.|Is a bat a bird?|no
yes|Is a stone alive? No.|Is Norway in Europe?|yes
"""
HELD_OUT = """
capitals||What colour is the sky on a clear day?|BLUE
capitals||Which farm animal says moo?|COWS?
capitals||Which fruit is long, bent and yellow?|BANANAS?
capitals||Which animal barks?|DOGS?
one word||What do hens lay?|eggs?|an egg
one word||What does a spider spin?|(a )?(webs?|silk|cobwebs?)
one word||What do we cut paper with?|scissors
one word||Which animal has black and white stripes?|(a )?zebras?
digits||How many wheels does a bicycle have?|2
digits||How many arms does an octopus have?|8
digits||How many things are in a dozen?|12
digits||How many toes does a person have?|10
words||How many planets go around the Sun?|eight
words||How many eggs are in half a dozen?|six
words||How many legs does a horse have?|four
words||How many eyes do people have?|two
start|Sir|What is the opposite of day?|night
start|Madam|Which drink is made from roasted beans?|coffee|espresso
start|Sure|What do fish breathe with?|gills?
start|Dear friend|Which animal is called the king of the jungle?|lion
end|goodbye|Which tool drives nails into wood?|hammer
end|indeed|Which desert animal has a hump?|camels?
end|my friend|What is the joint in the middle of the arm?|elbow
end|over and out|In which city is the Statue of Liberty?|New York
yes|Is ice cold? Yes.|Can pigs fly?|no
yes|Is a rose an animal? No.|Is gold a metal?|yes
yes|Do cows eat grass? Yes.|Is the Moon larger than the Earth?|no
yes|Is seven an even number? No.|Is salt white?|yes
"""
