"""Run by test/python/test_django.py with `manage.py test`: what a user's own
tests see of the queue."""
from django.db import connection
from django.test import TestCase, TransactionTestCase

from claimq.django import run_due
from claimq.django.models import Job

from . import tasks
from .models import Order


class Both:
    def test_first(self):
        self.enqueue()

    def test_second(self):              # the first has left nothing behind
        self.enqueue()

    def enqueue(self):
        self.assertEqual(Job.objects.count(), 0)
        Order.objects.create(number=1)
        result = tasks.add.enqueue(1, b=2)
        tasks.add.using(queue_name="mail").enqueue(3)
        self.assertEqual(run_due(), 2)
        result.refresh()
        self.assertEqual(result.return_value, 3)
        tasks.add.enqueue(1)
        with connection.cursor() as cursor:         # is held
            cursor.execute("SELECT * FROM claimq_lane('default', 'w')")
            self.assertEqual(len(cursor.fetchall()), 1)


class Rolled(Both, TestCase):
    pass


class Flushed(Both, TransactionTestCase):
    pass
