"""Play logs: files of single moves, the training data of policy networks.

    r 13 5 5 2 14 8 3 1 12 9 1 0 11 10 0 1 : 3 15

A move is one line: the letter r, the 16 exponents of the board, a colon, the move (0 up, 1 right, 2 down, 3
left) and the cell in which the new tile appeared after it. Kondo and Matsuzaki trained the networks of
"Playing Game 2048 with Deep Convolutional Neural Networks Trained by Supervised Learning" (Journal of
Information Processing 27, 2019) on 6 x 10^8 lines of this form. Lines are independent of each other, and
their order has no meaning.
"""
