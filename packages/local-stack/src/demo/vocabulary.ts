import type { CreateFinding, PushedEntity } from '@postern/contracts'
import type { DemoProfile } from './profile.ts'

/** What goes wrong in an organisation, told so that it fits any of its entities. */
export interface Topic {
  readonly title: string
  readonly condition: string
  readonly criteria: string
  readonly cause: string
  readonly consequence: string
  readonly action: string
  readonly category: NonNullable<CreateFinding['cause_category']>
  readonly type: NonNullable<CreateFinding['type']>
}

/** The words of a sector. */
export interface Vocabulary {
  readonly group: string
  /** Parts of the organisation; each has entities of every kind. */
  readonly areas: readonly string[]
  readonly kinds: readonly { readonly suffix: string; readonly type: PushedEntity['type'] }[]
  readonly topics: readonly Topic[]
  readonly procedures: readonly { readonly title: string; readonly control: string }[]
  readonly processes: readonly string[]
  readonly places: readonly string[]
}

export const firstNames: readonly string[] = (
  'Ada Aino Amir Anja Arne Bela Bram Carla Celia Dario Dora Edda Elio Emre Ewa Fabio Farah Finn Gesa Gil Hana Hugo Ida ' +
  'Ilse Ines Ivo Jana Jon Juno Kaja Karl Kira Lars Lea Lino Lotta Luca Maja Malte Mara Milo Mina Nadja Nils Nora Olga ' +
  'Oskar Paula Pelle Petra Rafi Rasa Rita Romy Ruben Sami Sanna Silas Stella Sven Tara Thea Timo Ute Vera Viggo Wanda ' +
  'Xenia Yara Zeno'
).split(' ')

export const lastNames: readonly string[] = (
  'Ahlberg Amsel Arvid Bakker Berning Bolt Brandt Carling Castell Dahl Dorn Ekman Elster Falk Fenner Forss Garde ' +
  'Gramm Hagen Halm Hauser Holt Iversen Janda Kehl Kestrel Klint Kroon Lang Lindt Lorenz Lund Marlow Mertz Moor Nagel ' +
  'Nord Oberg Orton Palm Pohl Quist Raben Reuter Rossi Sandt Selig Steen Strand Tamm Thorn Uhland Vark Vinter Weller ' +
  'Wick Yngve Zahn'
).split(' ')

export const titles: readonly string[] = [
  'Controller',
  'Team lead',
  'Analyst',
  'Process owner',
  'Engineer',
  'Specialist',
  'Head of unit',
  'Buyer',
  'Planner',
  'Risk officer',
]

const bank: Vocabulary = {
  group: 'Harbourline Group',
  areas: [
    'Retail lending',
    'Mortgages',
    'Cards',
    'Payments',
    'Treasury',
    'Financial crime',
    'Trade finance',
    'Custody',
    'Wealth management',
    'Leasing',
    'Brokerage',
    'Collections',
    'Branches',
    'Digital banking',
    'Compliance',
    'Finance',
    'Human resources',
    'Procurement',
    'IT operations',
    'Data office',
  ],
  kinds: [
    { suffix: 'department', type: 'department' },
    { suffix: 'onboarding', type: 'process' },
    { suffix: 'platform', type: 'it_system' },
    { suffix: 'reporting', type: 'process' },
    { suffix: 'outsourcing', type: 'vendor' },
    { suffix: 'reconciliation', type: 'process' },
    { suffix: 'data mart', type: 'it_system' },
    { suffix: 'standard product', type: 'product' },
    { suffix: 'service centre', type: 'location' },
    { suffix: 'limits and approvals', type: 'process' },
    { suffix: 'renewal project', type: 'project' },
    { suffix: 'models', type: 'other' },
  ],
  topics: [
    {
      title: 'Quarterly access review was not completed',
      condition: 'Of the accounts with elevated rights, 23 were not confirmed by their owners in the last review.',
      criteria: 'Access standard 4.1: elevated rights are confirmed every quarter, or withdrawn.',
      cause: 'Reminders go to a mailbox that nobody has read since the reorganisation.',
      consequence: 'Rights that are no longer needed stay, and can be misused without being noticed.',
      action: 'Send the review to named owners, and withdraw what is not confirmed within ten days.',
      category: 'process',
      type: 'control_deficiency',
    },
    {
      title: 'Changes go live without a second approval',
      condition: '6 of 40 changes of the last quarter were approved and released by the same person.',
      criteria: 'Change policy 2.3: who approves a change does not release it.',
      cause: 'The release tool accepts the approval of the person who releases.',
      consequence: 'A faulty or unwanted change reaches production and is seen by customers first.',
      action: 'Separate the two rights in the release tool, and review the 6 changes.',
      category: 'system',
      type: 'control_deficiency',
    },
    {
      title: 'Know-your-customer files are out of date',
      condition: '31 of 120 files with a high rating were last refreshed more than 12 months ago.',
      criteria: 'Anti-money-laundering manual 5.2: high-risk customers are refreshed every year.',
      cause: 'The queue is worked off by age of the relationship, not by the date that is due.',
      consequence: 'Changes of ownership are found too late; the supervisor can fine the bank.',
      action: 'Order the queue by due date and report what is overdue to the monthly committee.',
      category: 'process',
      type: 'noncompliance',
    },
    {
      title: 'Model is used outside its validated range',
      condition: 'For two segments the model is applied to exposures it was never calibrated on.',
      criteria: 'Model risk policy 3.4: use outside the validated range needs an approved exception.',
      cause: 'The inventory of models does not say for which segments a model was validated.',
      consequence: 'Expected losses are understated by an amount that nobody has estimated.',
      action: 'Add the validated range to the inventory, and block use outside it.',
      category: 'governance',
      type: 'exception',
    },
    {
      title: 'Service levels of the provider are not watched',
      condition: 'Reports of the provider for four of the last six months were neither asked for nor read.',
      criteria: 'Outsourcing policy 6.1: service levels of critical services are reviewed every month.',
      cause: 'The contract manager left, and the task was not handed over.',
      consequence: 'Outages are paid for in full, and a decline in quality is not seen.',
      action: 'Name a contract manager and a deputy, and catch up on the four reports.',
      category: 'third_party',
      type: 'control_deficiency',
    },
    {
      title: 'Figures of the report cannot be traced to their source',
      condition: 'For 9 of 55 figures the query that produced them was not kept.',
      criteria: 'Data policy 4: figures for the regulator can be reproduced for seven years.',
      cause: 'Analysts keep queries in personal folders.',
      consequence: 'An error in a past report could be neither explained nor corrected.',
      action: 'Keep queries in the repository of the data office, with the report that they served.',
      category: 'data',
      type: 'observation',
    },
    {
      title: 'Mandatory training was not completed',
      condition: '14 % of staff had not passed the yearly training at the end of the year.',
      criteria: 'Conduct policy 7: everybody passes the training within the year.',
      cause: 'Line managers are not told who is missing.',
      consequence: 'Staff may not recognise what they have to report.',
      action: 'Send managers a list every month, and escalate after two.',
      category: 'people',
      type: 'improvement',
    },
    {
      title: 'Restart of the service was not tested',
      condition: 'The last restart exercise is 27 months old, and the system has been replaced since.',
      criteria: 'Continuity policy 5: important services are restarted in an exercise every 12 months.',
      cause: 'Exercises are planned by system name, and the new name was never added.',
      consequence: 'How long an outage would last is not known.',
      action: 'Plan an exercise this quarter, and take the list of services from the inventory.',
      category: 'governance',
      type: 'control_deficiency',
    },
  ],
  procedures: [
    { title: 'Recertification of privileged accounts', control: 'ITGC-AC' },
    { title: 'Approval of changes before release', control: 'ITGC-CM' },
    { title: 'Backup and restore', control: 'ITGC-OP' },
    { title: 'Screening of payments', control: 'AML-SC' },
    { title: 'Refresh of customer files', control: 'AML-KY' },
    { title: 'Validation of models', control: 'MRM-VA' },
    { title: 'Reconciliation of accounts', control: 'SOX-RE' },
    { title: 'Review of manual postings', control: 'SOX-JE' },
  ],
  processes: ['Credit', 'Payments', 'Financial crime', 'Treasury', 'Information technology', 'Finance', 'People'],
  places: ['Northland', 'Westmark', 'Southport', 'Eastvale', 'Highmoor', 'Lakeside'],
}

const manufacturing: Vocabulary = {
  group: 'Korvex Group',
  areas: [
    'Plant North',
    'Plant East',
    'Plant South',
    'Plant West',
    'Plant Lakeside',
    'Plant Harbour',
    'Plant Valley',
    'Purchasing',
    'Logistics',
    'Sales',
    'Quality',
    'Environment and safety',
    'Engineering',
    'Finance',
    'IT and OT',
  ],
  kinds: [
    { suffix: 'inventory', type: 'process' },
    { suffix: 'maintenance', type: 'process' },
    { suffix: 'line control', type: 'it_system' },
    { suffix: 'goods receipt', type: 'process' },
    { suffix: 'contractors', type: 'vendor' },
    { suffix: 'management', type: 'department' },
    { suffix: 'tooling', type: 'other' },
    { suffix: 'warehouse', type: 'location' },
    { suffix: 'planning system', type: 'it_system' },
    { suffix: 'expansion', type: 'project' },
  ],
  topics: [
    {
      title: 'Stock counts differ from the books',
      condition: 'In the last cycle count 18 of 200 positions differed by more than the tolerance.',
      criteria: 'Inventory guide 3.1: differences above 2 % are explained within five days.',
      cause: 'Scrap is posted at the end of the week from handwritten lists.',
      consequence: 'Material is missing on the line, and stock in the balance sheet is wrong.',
      action: 'Post scrap at the machine, and explain the 18 positions.',
      category: 'process',
      type: 'control_deficiency',
    },
    {
      title: 'Invoices are paid without a three-way match',
      condition: '37 of 400 invoices were released although quantity or price differed from the order.',
      criteria: 'Payables guide 4.2: differences above 2 % are released by purchasing.',
      cause: 'The tolerance in the system was set to 15 % during the migration and left there.',
      consequence: 'Suppliers were overpaid; the sum is being established.',
      action: 'Set the tolerance back, and claim what was overpaid.',
      category: 'system',
      type: 'control_deficiency',
    },
    {
      title: 'Remote access of suppliers to machines stays open',
      condition: '5 of 12 remote connections were open although no work was going on.',
      criteria: 'OT standard 3.3: remote access is opened for a job and closed after it.',
      cause: 'The gateway has no time limit, and shifts do not hand over what is open.',
      consequence: 'Machines can be changed from outside without anybody on site knowing.',
      action: 'Set a limit of four hours in the gateway, and show open connections to the shift.',
      category: 'third_party',
      type: 'noncompliance',
    },
    {
      title: 'Lock-out before maintenance is not recorded',
      condition: 'For 8 of 30 jobs the sheet of the lock-out was missing.',
      criteria: 'ISO 45001, 8.1.2 and the safety manual 6: every lock-out is recorded and signed.',
      cause: 'Sheets lie in the office, 400 metres from the line.',
      consequence: 'Injury of staff; liability of the management.',
      action: 'Put sheets at the machines, and have shift leads check them every day.',
      category: 'people',
      type: 'noncompliance',
    },
    {
      title: 'Calibration of gauges is overdue',
      condition: '11 of 140 gauges in use were past their date by up to four months.',
      criteria: 'Quality manual 7.1.5: gauges past their date are taken out of use.',
      cause: 'The list of gauges is kept twice, and the lists differ.',
      consequence: 'Parts out of tolerance may have been delivered.',
      action: 'Calibrate the 11 gauges, judge the parts measured with them, and keep one list.',
      category: 'data',
      type: 'control_deficiency',
    },
    {
      title: 'Supplier was approved without an assessment',
      condition: 'Three suppliers of safety parts were approved on the strength of a price alone.',
      criteria: 'Purchasing policy 3: suppliers of safety parts are assessed on site.',
      cause: 'The exception for urgent cases has no end date.',
      consequence: 'Faulty parts, recalls, penalties of customers.',
      action: 'Assess the three suppliers, and let exceptions end after 60 days.',
      category: 'governance',
      type: 'exception',
    },
    {
      title: 'Near misses are not followed up',
      condition: 'Of 52 reported near misses, 20 have no measure and no decision.',
      criteria: 'Safety manual 9.2: a decision within 14 days.',
      cause: 'The safety meeting was dropped for two quarters.',
      consequence: 'The same hazards lead to accidents.',
      action: 'Hold the meeting every month, and decide on the 20 reports first.',
      category: 'people',
      type: 'observation',
    },
    {
      title: 'Programs of controllers are not backed up',
      condition: 'For 9 of 36 controllers the newest copy of the program is older than the last change.',
      criteria: 'OT standard 5.1: a copy after every change, kept off the line.',
      cause: 'Copies are made by hand, by whoever remembers.',
      consequence: 'After a failure a line would stand still for days.',
      action: 'Take copies automatically every night, and compare them with the running program.',
      category: 'system',
      type: 'improvement',
    },
  ],
  procedures: [
    { title: 'Observation of the inventory count', control: 'INV-CT' },
    { title: 'Three-way match', control: 'P2P-3W' },
    { title: 'Access to engineering workstations', control: 'OT-AC' },
    { title: 'Lock-out before maintenance', control: 'EHS-LO' },
    { title: 'Calibration of gauges', control: 'QM-CA' },
    { title: 'Approval of suppliers', control: 'P2P-SU' },
  ],
  processes: ['Procure to pay', 'Order to cash', 'Make', 'Environment and safety', 'Quality', 'Maintenance'],
  places: ['Northland', 'Eastvale', 'Southport', 'Westmark'],
}

export const vocabularies: Readonly<Record<DemoProfile['sector'], Vocabulary>> = { bank, manufacturing }
