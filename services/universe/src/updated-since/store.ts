export { findChangedFrom, findFeedMark } from '@postern/tenant-db'
