"""The strategies of agents: a package or a module each; no strategy imports another."""
