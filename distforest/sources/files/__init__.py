"""Files that become inputs."""
