"""Players from answers on Stack Overflow: minimax, Monte Carlo, and expectimax tuned by CMA-ES."""
