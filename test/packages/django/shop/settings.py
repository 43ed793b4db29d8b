"""A shop whose orders and tasks are in one file: DATABASE names it."""
import os

SECRET_KEY = "for tests"
USE_TZ = True
INSTALLED_APPS = ["claimq.django", "shop"]
try:
    import django.tasks  # noqa: F401
except ImportError:                     # before Django 6
    INSTALLED_APPS.append("django_tasks")
DATABASES = {"default": {
    "ENGINE": "django.db.backends.sqlite3",
    "NAME": os.environ.get("DATABASE", "test.db"),
    "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 30,
                "init_command": "PRAGMA journal_mode=wal"}}}
TASKS = {
    "default": {"BACKEND": "claimq.django.ClaimqBackend",
                "QUEUES": ["default", "mail"]},
    "patient": {"BACKEND": "claimq.django.ClaimqBackend",
                "QUEUES": ["patient"], "OPTIONS": {"max_attempts": 2}}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
MIGRATION_MODULES = {"shop": None}
LOGGING_CONFIG = None
if os.environ.get("BESIDE"):            # the database backend of django-tasks
    INSTALLED_APPS.append("django_tasks_db")
    TASKS["default"]["BACKEND"] = "django_tasks_db.DatabaseBackend"
