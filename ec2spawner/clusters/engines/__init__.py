"""What joins the workers: Ray's head or torchrun's rendezvous, on the notebook's instance."""
