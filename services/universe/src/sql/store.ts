// For other files with SQL, because only stores may import tenant-db.
export { statement } from '@postern/tenant-db'
