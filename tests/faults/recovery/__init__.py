"""A service that finds thousands of interrupted executions: how soon it is ready, and how soon it goes on with them."""
