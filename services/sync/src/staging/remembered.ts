/** Bytes of a hash that are held in memory: what they say is held against the whole hash in the database. */
export const heldBytes = 8

/**
 * The hashes of a connector's rows, so that a row that is as it was can be told while its source is read. Eight bytes a row, in
 * a table twice to four times as large: at most 36 MiB of a million rows.
 */
export class Remembered {
  readonly #slots: Uint32Array
  readonly #taken: Uint8Array
  readonly #mask: number
  #count = 0
  #first = 0
  #second = 0

  constructor(count: number) {
    const size = 2 ** Math.ceil(Math.log2(Math.max(16, count * 2)))
    this.#slots = new Uint32Array(size * 2)
    this.#taken = new Uint8Array(size)
    this.#mask = size - 1
  }

  /** Adds hashes that stand one behind the other, `heldBytes` of each. */
  add(hashes: Buffer): void {
    // Through a view: the methods of a Buffer take half of the whole, 10 to 20 ms of 100,000 hashes.
    const words = new DataView(hashes.buffer, hashes.byteOffset, hashes.length)
    for (let at = 0; at + heldBytes <= hashes.length; at += heldBytes) {
      const low = words.getUint32(at, true)
      const high = words.getUint32(at + 4, true)
      const slot = this.#find(low, high)
      this.#slots[slot * 2] = low
      this.#slots[slot * 2 + 1] = high
    }
  }

  /** How many of them were asked for. */
  get taken(): number {
    return this.#count
  }

  /** Of those that were asked for, the bytes that are not held: all of them by exclusive or, in hexadecimal. */
  get rest(): string {
    const bytes = Buffer.alloc(heldBytes)
    bytes.writeInt32LE(this.#first, 0)
    bytes.writeInt32LE(this.#second, 4)
    return bytes.toString('hex')
  }

  /** Whether it is among them, and was not asked for before: of rows that are alike one is known. */
  take(hash: string): boolean {
    const low = wordOf(hash, 0)
    const high = wordOf(hash, 4)
    const slot = this.#find(low, high)
    const isThere = this.#slots[slot * 2] !== 0 || this.#slots[slot * 2 + 1] !== 0
    if (!isThere || this.#taken[slot] === 1) return false
    this.#taken[slot] = 1
    this.#count += 1
    this.#first ^= wordOf(hash, heldBytes)
    this.#second ^= wordOf(hash, heldBytes + 4)
    return true
  }

  /** Where the hash stands, or would. One of zeros alone is never found, which is no harm. */
  #find(low: number, high: number): number {
    let slot = low & this.#mask
    for (;;) {
      const [one, other] = [this.#slots[slot * 2], this.#slots[slot * 2 + 1]]
      if ((one === low && other === high) || (one === 0 && other === 0)) return slot
      slot = (slot + 1) & this.#mask
    }
  }
}

/** Four characters, each a byte, as a Buffer reads a number of 32 bits. */
function wordOf(hash: string, at: number): number {
  const upper = (hash.charCodeAt(at + 3) << 24) | (hash.charCodeAt(at + 2) << 16)
  return (upper | (hash.charCodeAt(at + 1) << 8) | hash.charCodeAt(at)) >>> 0
}
