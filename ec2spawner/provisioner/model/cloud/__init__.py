"""What the provisioner needs of a cloud: one small Protocol, and the values it speaks."""
