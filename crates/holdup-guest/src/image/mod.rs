//! The initramfs: assembled from the host's own files, the same bytes for the same content.
