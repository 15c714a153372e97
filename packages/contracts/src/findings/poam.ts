import { z } from 'zod'

/** Rejects all members beyond the exported part of OSCAL, so valid documents are valid for NIST's JSON schema. */
export const oscalVersion = '1.2.0'

export const oscalMediaType = 'application/oscal+json'

// OSCAL allows only versions 4 and 5.
const uuid = z
  .string()
  .regex(/^[0-9a-f]{8}-[0-9a-f]{4}-[45][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  .meta({ examples: ['3f6ac1d9-6a0e-5c4e-8a53-0e6f1f0c7a11'] })
const word = z
  .string()
  .regex(/^\S(.*\S)?$/)
  .meta({ examples: ['high'] })
const token = z
  .string()
  .regex(/^(\p{L}|_)(\p{L}|\p{N}|[.\-_])*$/u)
  .meta({ examples: ['severity'] })
const markupLine = z
  .string()
  .regex(/^[^\n]+$/)
  .meta({ examples: ['Privileged access is not recertified'] })
const markup = z.string().meta({ examples: ['No recertification since January.'] })
const moment = z
  .string()
  .regex(
    /^(19|2[0-9])[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]+)?(Z|[+-]12:00)$/,
  )
  // NIST's pattern has no 29 February of 19xx.
  .refine((time) => !/^19\d\d-02-29/.test(time), { message: 'must not be 29 February of the years 1900 to 1999' })
  .refine((time) => isDay(time.slice(0, 10)), { message: 'must be on a calendar day' })
  .meta({ examples: ['2026-11-21T09:30:00.000Z'] })
const uri = z
  .string()
  .regex(/^[a-zA-Z][a-zA-Z0-9+\-.]+:.+$/)
  .meta({ examples: ['http://csrc.nist.gov/ns/oscal'] })
const email = z
  .string()
  .regex(/^\S+@\S+$/)
  .meta({ examples: ['ada.lund@harbourline.example'] })

function isDay(day: string): boolean {
  const at = Date.parse(`${day}T00:00:00Z`)
  return !Number.isNaN(at) && new Date(at).toISOString().startsWith(day)
}

function nonEmptyList<T extends z.ZodType>(item: T) {
  return z.array(item).min(1)
}

export const poamPropertySchema = z
  .strictObject({ name: token, ns: uri, value: word })
  .meta({ id: 'OscalProperty', description: 'A value that OSCAL has no member for, in a namespace of Postern' })
export type PoamProperty = z.infer<typeof poamPropertySchema>

const originSchema = z.strictObject({
  actors: nonEmptyList(z.strictObject({ type: z.enum(['tool', 'assessment-platform', 'party']), 'actor-uuid': uuid })),
})

export const poamPartySchema = z
  .strictObject({
    uuid,
    type: z.enum(['person', 'organization']),
    name: word.optional(),
    'email-addresses': nonEmptyList(email).optional(),
    remarks: markup.optional(),
  })
  .meta({ id: 'OscalParty' })
export type PoamParty = z.infer<typeof poamPartySchema>

export const poamMetadataSchema = z
  .strictObject({
    title: markupLine,
    'last-modified': moment,
    version: word,
    'oscal-version': z.literal(oscalVersion).meta({ id: 'OscalVersion' }),
    roles: nonEmptyList(z.strictObject({ id: token, title: markupLine })),
    parties: nonEmptyList(poamPartySchema),
    remarks: markup.optional(),
  })
  .meta({ id: 'OscalMetadata' })
export type PoamMetadata = z.infer<typeof poamMetadataSchema>

const relatedObservations = nonEmptyList(z.strictObject({ 'observation-uuid': uuid }))
const relatedRisks = nonEmptyList(z.strictObject({ 'risk-uuid': uuid }))
const properties = nonEmptyList(poamPropertySchema)

export const poamObservationSchema = z
  .strictObject({
    uuid,
    title: markupLine,
    description: markup,
    props: properties,
    methods: nonEmptyList(z.enum(['EXAMINE', 'INTERVIEW', 'TEST', 'UNKNOWN'])),
    types: nonEmptyList(z.enum(['ssp-statement-issue', 'control-objective', 'mitigation', 'discovery', 'historic'])),
    'relevant-evidence': nonEmptyList(z.strictObject({ description: markup, props: properties })).optional(),
    collected: moment,
  })
  .meta({ id: 'OscalObservation', description: 'The condition, and the evidence that the tracker log names' })
export type PoamObservation = z.infer<typeof poamObservationSchema>

const taskSchema = z.strictObject({
  uuid,
  type: z.enum(['milestone', 'action']),
  title: markupLine,
  props: properties,
  timing: z.strictObject({ 'on-date': z.strictObject({ date: moment }) }).optional(),
  'responsible-roles': nonEmptyList(z.strictObject({ 'role-id': token, 'party-uuids': nonEmptyList(uuid) })).optional(),
})

export const poamResponseSchema = z
  .strictObject({
    uuid,
    lifecycle: z.enum(['recommendation', 'planned', 'completed']),
    title: markupLine,
    description: markup,
    props: properties,
    tasks: nonEmptyList(taskSchema).optional(),
    remarks: markup.optional(),
  })
  .meta({ id: 'OscalResponse', description: 'A recommendation, or an action plan with its due date as a milestone' })
export type PoamResponse = z.infer<typeof poamResponseSchema>

const riskStatus = z
  .enum(['open', 'investigating', 'remediating', 'deviation-requested', 'deviation-approved', 'closed'])
  .meta({ id: 'OscalRiskStatus' })
export type PoamRiskStatus = z.infer<typeof riskStatus>

export const poamLogEntrySchema = z
  .strictObject({
    uuid,
    title: markupLine,
    description: markup.optional(),
    start: moment,
    props: properties,
    'status-change': riskStatus.optional(),
    'related-responses': nonEmptyList(z.strictObject({ 'response-uuid': uuid })).optional(),
  })
  .meta({ id: 'OscalRiskLogEntry', description: 'An entry of the remediation tracker log' })
export type PoamLogEntry = z.infer<typeof poamLogEntrySchema>

export const poamRiskSchema = z
  .strictObject({
    uuid,
    title: markupLine,
    description: markup,
    statement: markup,
    props: properties,
    status: riskStatus,
    characterizations: nonEmptyList(
      z.strictObject({
        origin: originSchema,
        facets: nonEmptyList(z.strictObject({ name: token, system: uri, value: word })),
      }),
    ),
    deadline: moment.optional(),
    remediations: nonEmptyList(poamResponseSchema).optional(),
    'risk-log': z.strictObject({ entries: nonEmptyList(poamLogEntrySchema) }).optional(),
    'related-observations': relatedObservations,
  })
  .meta({ id: 'OscalRisk' })
export type PoamRisk = z.infer<typeof poamRiskSchema>

export const poamFindingSchema = z
  .strictObject({
    uuid,
    title: markupLine,
    description: markup,
    props: properties,
    target: z.strictObject({
      type: z.enum(['statement-id', 'objective-id']),
      'target-id': token,
      description: markup.optional(),
      status: z.strictObject({
        state: z.enum(['satisfied', 'not-satisfied']),
        reason: z.enum(['pass', 'fail', 'other']),
      }),
    }),
    'related-observations': relatedObservations,
    'related-risks': relatedRisks,
    remarks: markup.optional(),
  })
  .meta({ id: 'OscalFinding' })
export type PoamFinding = z.infer<typeof poamFindingSchema>

export const poamItemSchema = z
  .strictObject({
    uuid,
    title: markupLine,
    description: markup,
    props: properties,
    'related-findings': nonEmptyList(z.strictObject({ 'finding-uuid': uuid })),
    'related-observations': relatedObservations,
    'related-risks': relatedRisks,
    remarks: markup.optional(),
  })
  .meta({ id: 'OscalPoamItem' })
export type PoamItem = z.infer<typeof poamItemSchema>

export const poamSchema = z
  .strictObject({
    'plan-of-action-and-milestones': z.strictObject({
      uuid,
      metadata: poamMetadataSchema,
      'system-id': z.strictObject({ 'identifier-type': uri, id: word }),
      observations: nonEmptyList(poamObservationSchema),
      risks: nonEmptyList(poamRiskSchema),
      findings: nonEmptyList(poamFindingSchema),
      'poam-items': nonEmptyList(poamItemSchema),
    }),
  })
  .meta({ id: 'OscalPoam', description: 'A plan of action and milestones in OSCAL (NIST)' })
export type Poam = z.infer<typeof poamSchema>
