# A memory made of one grid of numbers.
# A key is a list of 4 numbers of total length 1. A value is a list of 3 numbers.
keys = [[0.5, 0.5, 0.5, 0.5], [0.8, -0.6, 0.0, 0.0], [0.1, 0.1, 0.7, -0.7]]
values = [[9, 0, 3], [0, 5, 5], [4, 8, 0]]

memory = [[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]  # 3 rows (value) of 4 columns (key)


def write(key, value):
    for row in range(3):
        for column in range(4):
            memory[row][column] += value[row] * key[column]


def recall(query):
    return [sum(memory[row][column] * query[column] for column in range(4)) for row in range(3)]


for key, value in zip(keys, values):
    write(key, value)

for key, value in zip(keys, values):
    print("stored", value, " recalled", [round(x, 2) for x in recall(key)])
