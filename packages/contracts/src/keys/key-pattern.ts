// A separate file, so that the console does not load the schemas.

/** The form of a key. The console and secret scanners search for it; the services also verify the checksum. */
export const keyValuePattern = /postern_[0-9A-Za-z]{49}/
