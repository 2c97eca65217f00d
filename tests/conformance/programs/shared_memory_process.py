"""Another process writes into a tensor made with share_memory_()."""
import torch
import torch.multiprocessing as mp


def work(tensor, start):
    tensor[start : start + 2] += start + 1


counter = torch.zeros(4)
counter.share_memory_()
context = mp.get_context("fork")
processes = [context.Process(target=work, args=(counter, start)) for start in (0, 2)]
for p in processes:
    p.start()
for p in processes:
    p.join()
print(counter, counter.is_shared(), [p.exitcode for p in processes])


def produce(queue, received):
    queue.put((torch.arange(3) * 2, "text"))
    received.wait(20)  # a tensor's memory is handed over while its producer lives


queue, received = context.SimpleQueue(), context.Event()
p = context.Process(target=produce, args=(queue, received))
p.start()
print(queue.get())
received.set()
p.join()
