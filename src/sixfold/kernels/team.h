/* A thread pool that shares the tasks of a call with the calling thread.

No thread waits for one without a task: if a thread is late, because the processor is busy, the others do its tasks. A
thread without tasks spins briefly and then sleeps. Of two simultaneous calls one uses the team, and the other works
alone. After a fork the child has no team until it needs one. */

#ifndef TEAM_H
#define TEAM_H

#include "vectors.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

enum { MOST_THREADS = 64, SPINS = 2000 }; /* spins before a thread sleeps or yields */

typedef void Task(const void *work, long index, long thread); /* the calling thread is number 0 */

static struct {
    pthread_mutex_t owner; /* held by the call that uses the team */
    pthread_mutex_t mutex; /* of `wake` */
    pthread_cond_t wake;
    long helpers; /* threads that have been started */
    atomic_long asleep, done;
    Task *task;
    const void *work;
    _Atomic uint64_t ticket; /* 8 bits: how many threads may take tasks; 28: how many tasks; 28: the next one */
} team = {.owner = PTHREAD_MUTEX_INITIALIZER, .mutex = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};

enum { BITS = 28, MOST_TASKS = (1 << BITS) - 1 };

INLINE uint64_t next_task(uint64_t ticket) { return ticket & MOST_TASKS; }
INLINE int is_for(uint64_t ticket, long thread) {
    return (uint64_t)thread < ticket >> 2 * BITS && next_task(ticket) < (ticket >> BITS & MOST_TASKS);
}

/* Do tasks until all are taken. A taken task is finished before the next set of tasks can start. */
static void do_tasks(long thread) {
    uint64_t ticket = atomic_load(&team.ticket);
    while (is_for(ticket, thread))
        if (atomic_compare_exchange_weak(&team.ticket, &ticket, ticket + 1)) {
            team.task(team.work, next_task(ticket), thread);
            atomic_fetch_add(&team.done, 1);
            ticket = atomic_load(&team.ticket);
        }
}

INLINE void rest(void) { /* a few cycles */
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static int is_needed(long thread) { return is_for(atomic_load(&team.ticket), thread); }

static void sleep_until_woken(long thread) {
    pthread_mutex_lock(&team.mutex);
    atomic_fetch_add(&team.asleep, 1);
    if (!is_needed(thread)) pthread_cond_wait(&team.wake, &team.mutex);
    atomic_fetch_sub(&team.asleep, 1);
    pthread_mutex_unlock(&team.mutex);
}

static void *help(void *number) {
    long thread = (long)(intptr_t)number;
    for (int spins = 0;; spins++) {
        if (is_needed(thread)) do_tasks(thread), spins = 0;
        else if (spins < SPINS) rest();
        else sleep_until_woken(thread), spins = 0;
    }
    return NULL;
}

static void forget_helpers(void) { /* a fork copies the memory, but not the threads */
    pthread_mutex_init(&team.owner, NULL);
    pthread_mutex_init(&team.mutex, NULL);
    pthread_cond_init(&team.wake, NULL);
    atomic_store(&team.ticket, 0);
    atomic_store(&team.asleep, 0);
    team.helpers = 0;
}

static void watch_forks(void) { pthread_atfork(NULL, NULL, forget_helpers); }

static int start_helper(long thread) {
    pthread_t started;
    sigset_t every, before;
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before); /* the process's other threads handle signals */
    int has_failed = pthread_create(&started, NULL, help, (void *)(intptr_t)thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return !has_failed && !pthread_detach(started);
}

/* Return how many threads, up to the requested number, work on the following tasks until the team is left. */
static long join_team(long threads) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    if (threads < 2 || pthread_mutex_trylock(&team.owner)) return 1;
    while (team.helpers + 1 < shorter(threads, MOST_THREADS) && start_helper(team.helpers + 1)) team.helpers++;
    return shorter(threads, team.helpers + 1);
}

static void leave_team(long threads) {
    if (threads > 1) pthread_mutex_unlock(&team.owner);
}

/* Do tasks with as many threads as `join_team` returned. */
static void share_tasks(long threads, Task *task, const void *work, long tasks) {
    if (threads < 2 || tasks < 2) {
        for (long i = 0; i < tasks; i++) task(work, i, 0);
        return;
    }
    team.task = task, team.work = work;
    atomic_store(&team.done, 0);
    atomic_store(&team.ticket, (uint64_t)threads << 2 * BITS | (uint64_t)tasks << BITS);
    if (atomic_load(&team.asleep)) {
        pthread_mutex_lock(&team.mutex);
        pthread_cond_broadcast(&team.wake);
        pthread_mutex_unlock(&team.mutex);
    }
    do_tasks(0);
    for (int spins = 0; atomic_load(&team.done) < tasks; spins++)
        if (spins < SPINS) rest();
        else sched_yield();
}

#endif
