# shellcheck shell=bash
# Package archives for instances that reach none; sourced.

# The archive of this machine that has its own release: debootstrap's default may be unreachable.
mirror() { # $1: the release
    # shellcheck disable=SC2016 # apt's own variables
    apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' |
        awk -v release="$1" '$1 == release { print $2; exit }'
}

# Of this machine, which must be a Debian.
release() {
    # shellcheck source=/dev/null
    (. /etc/os-release && [[ $ID == debian ]] && echo "$VERSION_CODENAME") ||
        { echo "the root is made of Debian's packages, by a machine that has them" >&2 && return 1; }
}

# Makes a folder of packages an archive.
index_archive() { # $1: the folder
    local deb
    for deb in "$1"/*.deb; do
        dpkg-deb --field "$deb"
        printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' "${deb##*/}" "$(stat --format %s "$deb")" \
            "$(sha256sum "$deb" | cut -d ' ' -f 1)"
    done >"$1/Packages"
}
