"""Networks: what they are made of, how they read boards, and how they compute fast."""
