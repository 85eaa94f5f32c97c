"""What several tests share: marks, scripted models, real servers. It must hold no test and no fixture."""
