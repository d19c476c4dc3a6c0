"""What tests of several files share and no fixture is needed for."""
