# A memory made of one grid of numbers.
# A key is a list of 4 numbers of total length 1.
# A value is a list of 3 numbers.
keys = [[0.5, 0.5, 0.5, 0.5],
        [0.8, -0.6, 0.0, 0.0],
        [0.1, 0.1, 0.7, -0.7]]
values = [[9, 0, 3], [0, 5, 5], [4, 8, 0]]

memory = [[0] * 4 for _ in range(3)]    # 3 rows of 4 numbers

def write(key, value):
    for r in range(3):
        for c in range(4):
            memory[r][c] += value[r] * key[c]

def recall(query):
    return [sum(memory[r][c] * query[c] for c in range(4))
            for r in range(3)]

for key, value in zip(keys, values):
    write(key, value)
for key, value in zip(keys, values):
    print("stored", value,
          "recalled", [round(x, 2) for x in recall(key)])
