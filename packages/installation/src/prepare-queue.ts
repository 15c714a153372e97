import { queueSchema, syncQueues } from '@postern/contracts/internal'
import { asOwner, loginRoles } from '@postern/tenant-db'
import { PgBoss } from 'pg-boss'

/** The sync service cannot change schemas. Safe to run concurrently. */
export async function prepareQueue(migratorUrl: string): Promise<void> {
  await asOwner(migratorUrl, 'postern.queue', async (run) => {
    const boss = new PgBoss({
      db: { executeSql: run },
      schema: queueSchema,
      supervise: false,
      schedule: false,
      registerInstance: false,
    })
    boss.on('error', () => undefined)
    await boss.start()
    for (const { name, ...options } of syncQueues) {
      await boss.createQueue(name, options)
      const { policy: _fixed, ...changeable } = { policy: undefined, ...options }
      await boss.updateQueue(name, changeable)
    }
    await boss.stop({ graceful: false })
    await run(dropStatistics)
    await run(`
      grant usage on schema ${queueSchema} to ${loginRoles.sync};
      grant select, insert, update, delete on all tables in schema ${queueSchema} to ${loginRoles.sync};
      grant execute on all functions in schema ${queueSchema} to ${loginRoles.sync}`)
  })
}

// Statistics are not used and would create one table per day.
const dropStatistics = `
do $$
declare
  part regclass;
begin
  for part in select i.inhrelid from pg_inherits as i where i.inhparent = '${queueSchema}.queue_stats'::regclass loop
    execute format('drop table %s', part);
  end loop;
end
$$`
