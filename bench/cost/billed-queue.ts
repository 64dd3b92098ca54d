import { MemoryJobQueue } from '../../src/adapters/memory/job-queue.ts';
import type { NewMessage, ReceivedMessage, ReceiveOptions } from '../../src/store/job-queue.ts';

/** A queue in memory that counts requests as SQS bills them, without empty receives. */
export class BilledQueue extends MemoryJobQueue {
  requests = 0;

  override async send(message: NewMessage): Promise<void> {
    this.requests++;
    await super.send(message);
  }

  override async receive(options: ReceiveOptions): Promise<ReceivedMessage[]> {
    const messages = await super.receive(options);
    // Lambda polls empty queues too. These polls do not depend on the work.
    if (messages.length > 0) this.requests++;
    return messages;
  }

  override async depth(): Promise<number> {
    this.requests++;
    return super.depth();
  }

  override async changeVisibility(receipt: string, visibilityMs: number): Promise<void> {
    this.requests++;
    await super.changeVisibility(receipt, visibilityMs);
  }

  override async delete(receipt: string): Promise<void> {
    this.requests++;
    await super.delete(receipt);
  }
}
