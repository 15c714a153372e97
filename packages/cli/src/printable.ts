/** These could steer a terminal or reorder a line. */
const unsafe = /[\p{Cc}\p{Cs}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu

/** Returns one line with `?` for every character that could steer a terminal. */
export function printable(text: string): string {
  return text.replace(unsafe, '?')
}

export function printableLines(text: string): string {
  return text.split('\n').map(printable).join('\n')
}

/** Writes such characters as `\u` escapes, which keeps the meaning. */
export function printableJson(json: string): string {
  return json
    .split('\n')
    .map((line) => line.replace(unsafe, escapeUnit))
    .join('\n')
}

function escapeUnit(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
}
