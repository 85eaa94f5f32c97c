"""Properties: what must hold for every order of events, found by trying many."""
