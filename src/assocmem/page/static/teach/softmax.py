# A memory that keeps its pairs in a list and picks by likeness.
# A key is a list of 4 numbers of total length 1.
# A value is a list of 3 numbers.
from math import exp
keys = [[0.5, 0.5, 0.5, 0.5],
        [0.8, -0.6, 0.0, 0.0],
        [0.1, 0.1, 0.7, -0.7]]
values = [[9, 0, 3], [0, 5, 5], [4, 8, 0]]
beta = 8                                # how sharply it picks
memory = []

def write(key, value):
    memory.append((key, value))

def recall(query):
    alike = [sum(k * q for k, q in zip(key, query))
             for key, _ in memory]
    weights = [exp(beta * s) for s in alike]
    total = sum(weights)
    return [sum(w / total * value[i]
                for w, (_, value) in zip(weights, memory))
            for i in range(3)]

for key, value in zip(keys, values):
    write(key, value)
for key, value in zip(keys, values):
    print("stored", value,
          "recalled", [round(x, 2) for x in recall(key)])
