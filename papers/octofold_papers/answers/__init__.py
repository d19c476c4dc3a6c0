"""The answers on Stack Overflow: minimax, Monte Carlo, and weights of expectimax found by CMA-ES."""
