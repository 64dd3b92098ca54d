import {
  checkGroupName,
  type FeedGroup,
  type GroupLease,
  type GroupProgress,
  type GroupStore,
} from '../../feed/group-store.ts';

/** The groups of a feed in this process's memory. It is the reference for the other stores. */
export class MemoryGroupStore implements GroupStore {
  readonly #groups = new Map<string, FeedGroup>();

  async get(name: string): Promise<FeedGroup | undefined> {
    return this.#groups.get(name);
  }

  async *list(): AsyncGenerator<FeedGroup> {
    yield* [...this.#groups.values()];
  }

  async take(name: string, lease: GroupLease, first: GroupProgress, over?: GroupLease): Promise<FeedGroup> {
    checkGroupName(name);
    const group = this.#groups.get(name) ?? { name, ...first };
    const other = group.lease?.owner === lease.owner ? undefined : group.lease;
    const isOver = other?.owner === over?.owner && other?.until === over?.until;
    return other === undefined || isOver ? this.#put({ ...group, lease }) : group;
  }

  async save(name: string, lease: GroupLease, progress: GroupProgress): Promise<boolean> {
    if (!this.#maySave(name, lease.owner, progress)) return false;
    this.#put({ name, ...progress, lease });
    return true;
  }

  async release(name: string, owner: string, progress: GroupProgress): Promise<void> {
    if (this.#maySave(name, owner, progress)) this.#put({ name, ...progress });
  }

  #maySave(name: string, owner: string, { checkpoint }: GroupProgress): boolean {
    const group = this.#groups.get(name);
    return group?.lease?.owner === owner && group.checkpoint <= checkpoint;
  }

  #put(group: FeedGroup): FeedGroup {
    this.#groups.set(group.name, group);
    return group;
  }
}
