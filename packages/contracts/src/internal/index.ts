export * from './entities.ts'
export * from './leases.ts'
export * from './tenants.ts'
export * from './test-procedures.ts'
