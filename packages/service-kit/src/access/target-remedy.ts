import type { TargetRefusal } from '@postern/signed-context'

/** Returns how to correct a target that is not canonical. */
export function targetRemedy(reason: TargetRefusal): string {
  switch (reason) {
    case 'too_long':
      return 'Shorten the URL.'
    case 'not_origin_form':
      return 'Send only the path and query on the request line, not a whole URL.'
    case 'forbidden_character':
      return 'Percent-encode characters that a URL must not contain. A path must not contain backslashes or semicolons.'
    case 'bad_escape':
      return 'Each % must be followed by two hexadecimal digits, and the escapes must be UTF-8.'
    case 'forbidden_escape':
      return 'Write letters, digits, - . _ and ~ as themselves; slashes, backslashes and control characters may not be escaped.'
    case 'dot_segment':
      return 'Remove the dot segments.'
    case 'empty_segment':
      return 'Remove the empty segment (//).'
    default:
      return reason satisfies never
  }
}
