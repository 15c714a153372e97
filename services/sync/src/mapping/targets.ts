import type { MappingRule } from '@postern/contracts'
import { z } from 'zod'
import type { DatasetRules } from '../dataset/rules.ts'

export function targetsOf({ schema }: DatasetRules): readonly string[] {
  return Object.entries(schema.shape).flatMap(([name, field]) => {
    const whole = withoutWrapping(field)
    if (whole instanceof z.ZodRecord) return [name, `${name}.…`]
    return whole instanceof z.ZodObject
      ? [name, ...Object.keys(whole.shape).map((member) => `${name}.${member}`)]
      : [name]
  })
}

export function unknownTargets(rules: readonly MappingRule[], { schema }: DatasetRules): readonly number[] {
  return rules.flatMap(({ target }, index) => {
    const dot = target.indexOf('.')
    const name = dot === -1 ? target : target.slice(0, dot)
    const field = Object.hasOwn(schema.shape, name) ? schema.shape[name] : undefined
    const isKnown = field !== undefined && (dot === -1 || hasMember(field, target.slice(dot + 1)))
    return isKnown ? [] : [index]
  })
}

/** Returns the indexes of rules that set a whole field after another rule has set a member of it. */
export function replacingTargets(rules: readonly MappingRule[]): readonly number[] {
  return rules.flatMap(({ target }, index) =>
    rules.slice(0, index).some((earlier) => earlier.target.startsWith(`${target}.`)) ? [index] : [],
  )
}

function hasMember(field: z.core.$ZodType, member: string): boolean {
  const whole = withoutWrapping(field)
  if (whole instanceof z.ZodObject) return Object.hasOwn(whole.shape, member)
  // `__proto__` would set the prototype instead of a member.
  return whole instanceof z.ZodRecord && member !== '__proto__' && z.safeParse(whole.keyType, member).success
}

function withoutWrapping(field: z.core.$ZodType): z.core.$ZodType {
  return field instanceof z.ZodOptional || field instanceof z.ZodDefault ? withoutWrapping(field.unwrap()) : field
}
