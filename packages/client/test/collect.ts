export async function collect<T>(list: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = []
  for await (const each of list) all.push(each)
  return all
}
