"""Parts that all training runs share: options, state, reports and curves."""
