import pathlib
import time

from django.db import transaction

import claimq.django

from .models import Order

try:
    from django.tasks import task
except ImportError:
    from django_tasks import task


@task
def add(a, b=0):
    return a + b


@task
async def double(a):
    return {"double": 2 * a}


@task(takes_context=True)
def attempt(context, word):
    return [context.attempt, context.task_result.id, word]


@task
def fail():
    raise KeyError("user_id")


@task(backend="patient", queue_name="patient")
def fail_soon():
    raise claimq.Retry("not yet", delay_ms=0)


@task
def refuse():
    raise claimq.Reject("never")


@task
def steps():
    return claimq.django.current_job().step("one", lambda: 41) + 1


@task(takes_context=True)
def ship(context, number, file):
    """The first attempt hangs, and its worker is killed."""
    with transaction.atomic():
        Order.objects.create(number=number)
        if hang(file):
            time.sleep(3600)
        claimq.django.complete("shipped")
    return "shipped"


@task
def ship_plainly(number, file):
    if hang(file):
        time.sleep(3600)
    Order.objects.create(number=number)


@task
def meet(mine, other):
    pathlib.Path(mine).write_text("here")
    while not pathlib.Path(other).exists():
        time.sleep(0.02)
    return "met"


def hang(file):
    first = not pathlib.Path(file).exists()
    pathlib.Path(file).write_text("begun")
    return first


def no_task():
    pass
