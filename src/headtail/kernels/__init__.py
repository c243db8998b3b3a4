"""GPU fast paths, each beside its plain-torch reference, which runs everywhere else and which tests compare it with."""
