# An image for notebook instances: packer init . && packer build -var wheel=... .
# Packer logs in through Session Manager: no open port, no key pair. It needs the plugin of the AWS
# CLI for that, and rights to launch an instance, to make a temporary role, and to create an image.

packer {
  required_plugins {
    amazon = {
      source  = "github.com/hashicorp/amazon"
      version = ">= 1.3.0, < 2.0.0"
    }
  }
}

variable "region" {
  type    = string
  default = "us-east-1"
}

variable "wheel" {
  type        = string
  description = "Path of the wheel: dist/ec2spawner-VERSION-py3-none-any.whl"
}

variable "torch" {
  type        = string
  default     = ""
  description = "A requirement such as torch==2.9.1, for a PyTorch kernel; empty is none"
}

variable "debs" {
  type        = string
  default     = ""
  description = "Addresses of packages that are in no archive, https://...deb#sha256=..., separated by spaces"
}

variable "base" {
  type        = string
  default     = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id"
  description = "SSM parameter with the id of the image to start from"
}

variable "instance_type" {
  type        = string
  default     = "m7i.large"
  description = "No GPU is needed: nothing here runs on one"
}

variable "subnet" {
  type        = string
  default     = ""
  description = "A subnet with a way to the internet; empty is the default VPC's"
}

data "amazon-parameterstore" "base" {
  name   = var.base
  region = var.region
}

locals {
  recipe = sha256(file("${path.root}/provision.sh"))
}

source "amazon-ebs" "notebook" {
  region        = var.region
  source_ami    = data.amazon-parameterstore.base.value
  instance_type = var.instance_type
  subnet_id     = var.subnet

  communicator     = "ssh"
  ssh_username     = "ubuntu"
  ssh_interface    = "session_manager"
  pause_before_ssm = "30s"

  temporary_iam_instance_profile_policy_document {
    Version = "2012-10-17"
    Statement {
      Effect = "Allow"
      Action = [
        "ssm:UpdateInstanceInformation",
        "ssmmessages:CreateControlChannel",
        "ssmmessages:CreateDataChannel",
        "ssmmessages:OpenControlChannel",
        "ssmmessages:OpenDataChannel",
      ]
      Resource = ["*"]
    }
  }

  metadata_options {
    http_endpoint = "enabled"
    http_tokens   = "required"
  }

  ami_name        = "notebooks-{{isotime \"2006-01-02-1504\"}}"
  ami_description = "Notebook instances of ec2spawner, from {{ .SourceAMIName }}"
  imds_support    = "v2.0"

  tags = {
    Name                  = "notebooks"
    "ec2spawner-recipe"   = local.recipe
    "ec2spawner-package"  = basename(var.wheel)
    "ec2spawner-base"     = "{{ .SourceAMI }}"
  }
  snapshot_tags = {
    Name = "notebooks"
  }
}

build {
  sources = ["source.amazon-ebs.notebook"]

  provisioner "file" {
    source      = var.wheel
    destination = "/tmp/"
  }

  provisioner "shell" {
    script           = "${path.root}/provision.sh"
    execute_command  = "sudo env {{ .Vars }} bash {{ .Path }}"
    environment_vars = [
      "PACKAGE=ec2spawner[notebook] @ file:///tmp/${basename(var.wheel)}",
      "TORCH=${var.torch}",
      "DEBS=${var.debs}",
    ]
  }

  provisioner "file" {
    direction   = "download"
    source      = "/etc/ec2spawner/image.json"
    destination = "image.json"
  }

  # Last: after it nobody can log in.
  provisioner "shell" {
    script          = "${path.root}/provision.sh"
    execute_command = "sudo bash {{ .Path }} clean"
  }

  post-processors {
    post-processor "manifest" {
      output = "packer-manifest.json"
    }
    # `ec2spawner check` compares the driver with what the GPUs of the profiles need.
    post-processor "shell-local" {
      environment_vars = ["AWS_REGION=${var.region}"]
      inline = [
        "image=$(python3 -c 'import json; print(json.load(open(\"packer-manifest.json\"))[\"builds\"][-1][\"artifact_id\"].split(\":\")[1])')",
        "driver=$(python3 -c 'import json; print(json.load(open(\"image.json\"))[\"driver\"])')",
        "aws ec2 create-tags --resources $image --tags Key=nvidia-driver,Value=$driver",
      ]
    }
  }
}
