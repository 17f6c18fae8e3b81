/* A long-running client of Slurm: submits jobs one after another through libslurm, and prints the
 * seconds of all submissions. Each job is like one of sbatch, but without starting a process. */

#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + now.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
  char *environment[] = {"PATH=/usr/bin:/bin", NULL};
  long jobs = argc == 2 ? strtol(argv[1], NULL, 10) : 0;
  if (jobs < 1) {
    fprintf(stderr, "usage: slurm_client JOBS\n");
    return 2;
  }
  slurm_init(NULL);
  double start = seconds();
  for (long job = 0; job < jobs; job++) {
    job_desc_msg_t asked;
    submit_response_msg_t *answer = NULL;
    slurm_init_job_desc_msg(&asked);
    asked.name = "train";
    asked.script = "#!/bin/sh\nsleep 3600\n";
    asked.work_dir = "/tmp";
    asked.std_out = "/dev/null";
    asked.user_id = getuid();
    asked.group_id = getgid();
    asked.environment = environment;
    asked.env_size = 1;
    asked.min_nodes = 1;
    asked.num_tasks = 1;
    asked.tres_per_node = "gres:gpu:h100:1";
    if (slurm_submit_batch_job(&asked, &answer) != SLURM_SUCCESS) {
      slurm_perror("submit");
      return 1;
    }
    slurm_free_submit_response_response_msg(answer);
  }
  printf("%.6f\n", seconds() - start);
  return 0;
}
