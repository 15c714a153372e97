export {
  type Anchor,
  type ChainFault,
  type FindingVerification,
  emptyRoot,
  hashOf,
  nextRoot,
  parseEntry,
  sealEntry,
  verifyFindingLog,
} from './chain.ts'
export { type Checkpoint, checkpointSchema, checkpointType, verifyCheckpoint } from './checkpoint.ts'
export { type ExportReport, verifyExport } from './verify-export.ts'
