import type { PushedHierarchy } from '@postern/contracts'

export interface DemoHierarchy {
  readonly key: string
  readonly name: string
  readonly kind: PushedHierarchy['kind']
  readonly nodes: number
  /** What the levels are called, from the root down. */
  readonly levels: readonly string[]
}

/** How much of everything a demo tenant has. */
export interface DemoProfile {
  readonly slug: string
  readonly name: string
  readonly sector: 'bank' | 'manufacturing'
  readonly hierarchies: readonly DemoHierarchy[]
  readonly entities: {
    readonly all: number
    /** With a critical or high inherent risk. */
    readonly severe: number
    /** Whose next audit is past due. */
    readonly pastDue: number
    /** With a date that a regulator has set, and a cycle of 12 months. */
    readonly regulated: number
  }
  readonly people: {
    readonly all: number
    /** Those who answer for findings. */
    readonly owners: number
    /** Those who have left and still have action plans. */
    readonly leavers: number
  }
  readonly testProcedures: number
  readonly findings: {
    readonly all: number
    readonly repeats: number
    readonly closed: number
    readonly overdue: number
    readonly riskAccepted: number
    readonly drafts: number
    readonly cancelled: number
    readonly pendingValidation: number
    /** Open, with nothing done yet. What is left is in remediation. */
    readonly open: number
  }
  readonly recommendations: number
  readonly actionPlans: { readonly all: number; readonly extended: number; readonly blocked: number }
  readonly logEntries: number
  readonly evidence: {
    readonly files: number
    /** That belong to two test procedures or more. */
    readonly reused: number
    /** That replace another one; among `files`. */
    readonly revisions: number
    /** That are in quarantine; among `files`, and as many as `quarantinedFiles` or none. */
    readonly quarantined: number
    /** Bytes of each file, roughly; undefined: of different sizes, up to 6 MiB. */
    readonly size?: number
  }
}

/** Critical, high, medium, low: of 100 findings. */
export const severityShares = [6, 22, 45, 27] as const

/** Two invented organisations of different size and kind. */
export const demoProfiles: readonly DemoProfile[] = [
  {
    slug: 'harbourline',
    name: 'Harbourline Bank',
    sector: 'bank',
    hierarchies: [
      { key: 'legal', name: 'Legal entities', kind: 'legal_entity', nodes: 14, levels: ['Holding', 'Company', 'SPV'] },
      {
        key: 'management',
        name: 'Management structure',
        kind: 'management',
        nodes: 62,
        levels: ['Group', 'Division', 'Department', 'Team'],
      },
      { key: 'process', name: 'Process map', kind: 'process', nodes: 118, levels: ['Map', 'L1', 'L2', 'L3'] },
      { key: 'geography', name: 'Regions', kind: 'geography', nodes: 23, levels: ['World', 'Country', 'Office'] },
    ],
    entities: { all: 240, severe: 30, pastDue: 12, regulated: 8 },
    people: { all: 1900, owners: 35, leavers: 14 },
    testProcedures: 420,
    findings: {
      all: 320,
      repeats: 35,
      closed: 128,
      overdue: 58,
      riskAccepted: 5,
      drafts: 4,
      cancelled: 6,
      pendingValidation: 16,
      open: 62,
    },
    recommendations: 510,
    actionPlans: { all: 640, extended: 179, blocked: 6 },
    logEntries: 5200,
    evidence: { files: 900, reused: 60, revisions: 12, quarantined: 2 },
  },
  {
    slug: 'korvex',
    name: 'Korvex Manufacturing',
    sector: 'manufacturing',
    hierarchies: [
      { key: 'legal', name: 'Legal entities', kind: 'legal_entity', nodes: 9, levels: ['Group', 'Company'] },
      {
        key: 'management',
        name: 'Management structure',
        kind: 'management',
        nodes: 41,
        levels: ['Group', 'Function', 'Department'],
      },
      { key: 'geography', name: 'Plants', kind: 'geography', nodes: 31, levels: ['World', 'Country', 'Plant', 'Line'] },
      { key: 'process', name: 'Process map', kind: 'process', nodes: 76, levels: ['Map', 'L1', 'L2', 'L3'] },
    ],
    entities: { all: 150, severe: 20, pastDue: 9, regulated: 4 },
    people: { all: 3400, owners: 28, leavers: 9 },
    testProcedures: 260,
    findings: {
      all: 190,
      repeats: 17,
      closed: 72,
      overdue: 31,
      riskAccepted: 4,
      drafts: 3,
      cancelled: 3,
      pendingValidation: 10,
      open: 38,
    },
    recommendations: 300,
    actionPlans: { all: 370, extended: 96, blocked: 4 },
    logEntries: 2900,
    evidence: { files: 520, reused: 34, revisions: 7, quarantined: 0 },
  },
]

/**
 * The same organisation so many times larger. What hierarchies and levels are called stays as it is; files are small, since
 * their number is what counts.
 */
export function scaled(profile: DemoProfile, factor: number): DemoProfile {
  const { entities, people, findings, actionPlans, evidence } = profile
  const times = (count: number): number => Math.round(count * factor)
  return {
    ...profile,
    hierarchies: profile.hierarchies.map((hierarchy) => ({
      ...hierarchy,
      nodes: times(hierarchy.nodes),
    })),
    entities: {
      all: times(entities.all),
      severe: times(entities.severe),
      pastDue: times(entities.pastDue),
      regulated: times(entities.regulated),
    },
    people: { all: times(people.all), owners: times(people.owners), leavers: times(people.leavers) },
    testProcedures: times(profile.testProcedures),
    findings: {
      all: times(findings.all),
      repeats: times(findings.repeats),
      closed: times(findings.closed),
      overdue: times(findings.overdue),
      riskAccepted: times(findings.riskAccepted),
      drafts: times(findings.drafts),
      cancelled: times(findings.cancelled),
      pendingValidation: times(findings.pendingValidation),
      open: times(findings.open),
    },
    recommendations: times(profile.recommendations),
    actionPlans: {
      all: times(actionPlans.all),
      extended: times(actionPlans.extended),
      blocked: times(actionPlans.blocked),
    },
    logEntries: times(profile.logEntries),
    evidence: {
      files: times(evidence.files),
      reused: times(evidence.reused),
      revisions: times(evidence.revisions),
      quarantined: evidence.quarantined,
      size: 1024,
    },
  }
}
